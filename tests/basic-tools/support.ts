// What the tests of basic-tools share: where the skill is, its tools as functions over a workspace
// of the test's own, and a comparison that looks only at what a case names.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { call, type Outcome } from "../../skills/built-in/basic-tools@1.0.0/scripts/lib/tool.ts";
import type { Roots } from "../../skills/built-in/basic-tools@1.0.0/scripts/lib/paths.ts";
import { httpRequest } from "../../skills/built-in/basic-tools@1.0.0/scripts/http-request.ts";
import { listDirectory } from "../../skills/built-in/basic-tools@1.0.0/scripts/list-directory.ts";
import { readFile } from "../../skills/built-in/basic-tools@1.0.0/scripts/read-file.ts";
import { runCommand } from "../../skills/built-in/basic-tools@1.0.0/scripts/run-command.ts";
import { writeFile } from "../../skills/built-in/basic-tools@1.0.0/scripts/write-file.ts";

export const SKILL = join(import.meta.dirname, "../../skills/built-in/basic-tools@1.0.0");

const TOOLS: Record<string, (args: never, roots: Roots) => unknown> = {
  "read-file": readFile,
  "write-file": writeFile,
  "list-directory": listDirectory,
  "run-command": runCommand,
  "http-request": httpRequest,
};

export const TOOL_NAMES = Object.keys(TOOLS);

export function schemaOf(tool: string) {
  return JSON.parse(readFileSync(join(SKILL, "scripts", `${tool}.schema.json`), "utf8"));
}

/** A folder with a workspace and a skills folder in it, removed when `body` ends. */
export async function inWorkspace(body: (roots: Roots) => Promise<void> | void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "basic-tools-"));
  const roots = { workspace: join(folder, "workspace"), readOnly: [join(folder, "skills")] };
  try {
    mkdirSync(roots.workspace);
    mkdirSync(roots.readOnly[0]);
    await body(roots);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Calls a tool as its script does, with the argument as JSON text. */
export function invoke(tool: string, args: unknown, roots: Roots): Promise<Outcome> {
  return call(schemaOf(tool), (checked: never) => TOOLS[tool](checked, roots), () => JSON.stringify(args));
}

export function shell(script: string, cwd: string): string {
  return execFileSync("bash", ["-euc", script], { cwd, encoding: "utf8" });
}

/** Fails unless everything that `expected` names is the same in `actual`. */
export function assertHas(actual: unknown, expected: unknown, where = "result"): void {
  if (typeof expected !== "object" || expected === null) {
    assert.deepEqual(actual, expected, where);
    return;
  }
  assert.ok(typeof actual === "object" && actual !== null, `${where} is ${JSON.stringify(actual)}`);
  if (Array.isArray(expected)) assert.equal((actual as unknown[]).length, expected.length, `length of ${where}`);
  for (const [key, value] of Object.entries(expected)) {
    assertHas((actual as Record<string, unknown>)[key], value, `${where}.${key}`);
  }
}

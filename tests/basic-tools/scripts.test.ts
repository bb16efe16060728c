// The scripts as programs: how they take arguments, what they print, and that the manifest is true.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { schemaOf, SKILL, TOOL_NAMES } from "./support.ts";

const manifest = JSON.parse(readFileSync(join(SKILL, "manifest.json"), "utf8"));
const refused = { url: "gopher://x/" };

function run(tool: string, args: string[], input = "", skill = SKILL) {
  const { stdout, stderr, status } = spawnSync(process.execPath, [join(skill, "scripts", `${tool}.ts`), ...args], { input, encoding: "utf8" });
  assert.equal(stderr, "");
  assert.equal(stdout.trimEnd().split("\n").length, 1, `not one document: ${stdout}`);
  return { status, document: JSON.parse(stdout) };
}

test("the manifest lists the five scripts, and every file it lists exists", () => {
  assert.deepEqual([...manifest.scripts].sort(), TOOL_NAMES.map((name) => `scripts/${name}.ts`).sort());
  for (const file of [...manifest.context, ...manifest.scripts]) assert.ok(existsSync(join(SKILL, file)), file);
  const scripts = readdirSync(join(SKILL, "scripts")).filter((name) => name.endsWith(".ts"));
  assert.equal(scripts.length, manifest.scripts.length);
});

for (const tool of TOOL_NAMES) {
  test(`${tool} is executable, and its first comment, schema and description agree`, () => {
    const file = join(SKILL, "scripts", `${tool}.ts`);
    accessSync(file, constants.X_OK);
    const [shebang, comment] = readFileSync(file, "utf8").split("\n");
    assert.equal(shebang, "#!/usr/bin/env node");
    const schema = schemaOf(tool);
    assert.equal(comment, `// ${schema.description}`);
    assert.equal(schema.$schema, "https://json-schema.org/draft/2020-12/schema");
    assert.equal(schema.additionalProperties, false);
    for (const [name, property] of Object.entries<{ description?: string }>(schema.properties)) assert.ok(property.description, name);
    const { status, document } = run(tool, ["--describe"]);
    assert.deepEqual([status, document], [0, { name: tool, description: schema.description, inputSchema: schema }]);
  });

  test(`${tool} tells malformed JSON and shows an example`, () => {
    const { status, document } = run(tool, ["{path: 1}"]);
    assert.equal(status, 1);
    assert.equal(document.success, false);
    assert.match(document.error, /not valid JSON .* such as \{"/);
  });
}

test("the argument is taken from the command line, else from standard input", () => {
  const expected = { status: 1, error: /not gopher/ };
  for (const [args, input] of [
    [[JSON.stringify(refused)], ""],
    [[], JSON.stringify(refused)],
    [[JSON.stringify(refused)], JSON.stringify({ url: "other" })],
    [[""], JSON.stringify(refused)],
  ] as [string[], string][]) {
    const { status, document } = run("http-request", args, input);
    assert.equal(status, expected.status);
    assert.match(document.error, expected.error);
  }
});

test("no argument at all names the missing parameter", () => {
  const { status, document } = run("http-request", []);
  assert.equal(status, 1);
  assert.match(document.error, /^missing parameter "url"/);
});

test("an argument larger than a command line fits on standard input", () => {
  const { document } = run("http-request", [], JSON.stringify({ ...refused, body: "x".repeat(5_000_000) }));
  assert.match(document.error, /not gopher/);
});

test("a script runs through the link to its version", () => {
  const link = join(tmpdir(), `basic-tools-link-${process.pid}`);
  symlinkSync(SKILL, link);
  try {
    assert.equal(run("read-file", ["--describe"], "", link).document.name, "read-file");
  } finally {
    rmSync(link);
  }
});

// What every script of this skill shares: it takes the JSON argument, checks it against the
// script's schema file, runs the tool, and prints one JSON document. It never throws past main.

import { readFileSync, readSync, realpathSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { checkArguments, type Schema } from "./arguments.ts";

/** An error whose message is written for the model that called the tool. */
export class ToolError extends Error {
  /** What was achieved before the failure, such as the output of a command that timed out. */
  readonly partial: unknown;

  constructor(message: string, partial?: unknown) {
    super(message);
    this.partial = partial;
  }
}

export type Outcome = { success: true; result: unknown } | { success: false; error: string; result?: unknown };

const MAX_INPUT_BYTES = 32 * 1024 * 1024;

/** Runs `tool` when the module at `moduleUrl` is the program itself, not when a test imports it. */
export async function main<A>(moduleUrl: string, tool: (args: A) => Promise<unknown> | unknown): Promise<void> {
  const file = fileURLToPath(moduleUrl);
  if (process.argv[1] === undefined || realpathSync(process.argv[1]) !== realpathSync(file)) return;

  const schema: Schema = JSON.parse(readFileSync(file.replace(/\.ts$/, ".schema.json"), "utf8"));
  if (process.argv[2] === "--describe") {
    const description = { name: basename(file, ".ts"), description: schema.description, inputSchema: schema };
    await print(description, 0);
    return;
  }
  const outcome = await call(schema, tool, () => process.argv[2] || readStandardInput());
  await print(outcome, outcome.success ? 0 : 1);
}

/** Parses and checks the argument that `input` gives, runs the tool, and turns every error into an outcome. */
export async function call<A>(
  schema: Schema,
  tool: (args: A) => Promise<unknown> | unknown,
  input: () => string,
): Promise<Outcome> {
  try {
    const args = checkArguments(schema, parse(schema, input()));
    return { success: true, result: await tool(args as A) };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if (error instanceof ToolError && error.partial !== undefined) {
      return { success: false, error: message, result: error.partial };
    }
    return { success: false, error: message };
  }
}

function parse(schema: Schema, text: string): unknown {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    const example = JSON.stringify(schema.examples?.[0] ?? {});
    throw new ToolError(`the argument is not valid JSON (${(error as Error).message}); give one JSON object, such as ${example}`);
  }
}

function readStandardInput(): string {
  if (process.stdin.isTTY) return "";
  const chunks: Buffer[] = [];
  let total = 0;
  for (;;) {
    const chunk = Buffer.alloc(64 * 1024);
    let count: number;
    try {
      count = readSync(0, chunk, 0, chunk.length, null);
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code === "EAGAIN") {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
        continue;
      }
      if (code === "EOF") break;
      throw error;
    }
    if (count === 0) break;
    total += count;
    if (total > MAX_INPUT_BYTES) throw new ToolError(`the argument on standard input is larger than ${MAX_INPUT_BYTES} bytes`);
    chunks.push(chunk.subarray(0, count));
  }
  return Buffer.concat(chunks).toString("utf8");
}

async function print(document: unknown, exitCode: number): Promise<void> {
  await new Promise<void>((done) => process.stdout.write(JSON.stringify(document) + "\n", () => done()));
  process.exit(exitCode);
}

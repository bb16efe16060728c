#!/usr/bin/env node
// Run a shell command or a program in the workspace and return its exit code and output.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { lstatSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { type Roots, CONTAINER, describe, kindOf, resolve } from "./lib/paths.ts";
import { encode } from "./lib/text.ts";
import { main, ToolError } from "./lib/tool.ts";

type Args = {
  command: string | string[];
  cwd: string;
  env: Record<string, string>;
  stdin?: string;
  timeout_ms: number;
  max_output_bytes: number;
};
type Child = ChildProcessByStdio<Writable, Readable, Readable>;
type End = { exitCode: number | null; signal: string | null };

/** Time between asking a command to stop and killing it. */
const GRACE_MS = 2000;
/** Time for output still in the pipes once the command has ended. */
const DRAIN_MS = 500;

export async function runCommand(args: Args, roots: Roots = CONTAINER): Promise<unknown> {
  const [program, ...rest] = typeof args.command === "string" ? ["bash", "-c", args.command] : args.command;
  if (typeof args.command === "string" && args.command.trim() === "") throw new ToolError('parameter "command" is empty');
  const cwd = directory(roots, args.cwd);
  checkEnvironment(args);

  const started = performance.now();
  const child = start(program, rest, cwd, args);
  const stdout = collect(child.stdout, args.max_output_bytes);
  const stderr = collect(child.stderr, args.max_output_bytes);
  const stop = stopper(child);
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    stop.now();
  }, args.timeout_ms);
  process.once("SIGTERM", stop.now).once("SIGINT", stop.now);
  try {
    feed(child, args.stdin);
    const end = await ended(child, program);
    const result = {
      exit_code: end.exitCode,
      signal: end.signal,
      stdout: stdout.text(),
      stderr: stderr.text(),
      truncated: stdout.truncated() || stderr.truncated(),
      timed_out: timedOut,
      duration_ms: Math.round(performance.now() - started),
    };
    if (timedOut) throw new ToolError(`the command was stopped after ${args.timeout_ms} ms; raise "timeout_ms" (at most 600000) if it needs longer${tail(result)}`, result);
    if (stop.asked()) throw new ToolError("the command was stopped because this tool was asked to stop", result);
    return result;
  } finally {
    clearTimeout(timer);
    stop.done();
    process.off("SIGTERM", stop.now).off("SIGINT", stop.now);
  }
}

/** Starts the command in a process group of its own, so that a stop reaches its children as well. */
function start(program: string, rest: string[], cwd: string, args: Args): Child {
  try {
    return spawn(program, rest, { cwd, env: { ...process.env, ...args.env }, detached: true, stdio: ["pipe", "pipe", "pipe"] });
  } catch (error) {
    throw cannotStart(error as NodeJS.ErrnoException, program);
  }
}

function cannotStart(error: NodeJS.ErrnoException, program: string): ToolError {
  const words: Record<string, string> = {
    ENOENT: `there is no program "${program}"; a shell line is given as one string, a program and its arguments as an array`,
    EACCES: `"${program}" is not executable`,
    E2BIG: 'the command and its environment are too long; pass large input by "stdin" or a file',
    EAGAIN: "no process can be started: the agent's limit of processes is reached",
  };
  return new ToolError(words[error.code ?? ""] ?? `"${program}" cannot be started: ${error.message}`);
}

function directory(roots: Roots, given: string): string {
  const real = resolve(roots, given, "write");
  try {
    const kind = kindOf(lstatSync(real));
    if (kind !== "directory") throw new ToolError(`parameter "cwd": "${given}" is a ${kind}, not a directory`);
  } catch (error) {
    throw describe(error, given);
  }
  return real;
}

function checkEnvironment(args: Args): void {
  for (const [name, value] of Object.entries(args.env)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw new ToolError(`parameter "env": "${name}" is not a name of an environment variable`);
    if (value.includes("\0")) throw new ToolError(`parameter "env": the value of "${name}" contains a NUL character`);
  }
  if ([args.command].flat().some((part) => part.includes("\0"))) throw new ToolError('parameter "command" contains a NUL character');
}

function feed(child: Child, text: string | undefined): void {
  child.stdin.on("error", () => {}); // the command may end without reading its input
  child.stdin.end(text ?? "");
}

/** Resolves when the command has ended and its output is read, or what is left of its group was killed. */
function ended(child: Child, program: string): Promise<End> {
  return new Promise((done, fail) => {
    child.once("error", (error: NodeJS.ErrnoException) => fail(cannotStart(error, program)));
    child.once("exit", (exitCode, signal) => {
      const finish = () => done({ exitCode, signal });
      child.once("close", () => {
        clearTimeout(drain);
        signalGroup(child, "SIGKILL");
        finish();
      });
      // A process left in the background may hold the pipes open for ever.
      const drain = setTimeout(() => {
        signalGroup(child, "SIGKILL");
        child.stdout.destroy();
        child.stderr.destroy();
      }, DRAIN_MS);
    });
  });
}

function stopper(child: Child): { now: () => void; asked: () => boolean; done: () => void } {
  let kill: NodeJS.Timeout | undefined;
  return {
    now: () => {
      if (kill !== undefined) return;
      kill = setTimeout(() => signalGroup(child, "SIGKILL"), GRACE_MS);
      signalGroup(child, "SIGTERM");
    },
    asked: () => kill !== undefined,
    done: () => clearTimeout(kill),
  };
}

function signalGroup(child: Child, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    // Gone already, or a process that changed its user: the agent's init ends what is left.
    if (!["ESRCH", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}

/** Keeps the first `cap` bytes and counts on, so that a command never blocks on a full pipe. */
function collect(stream: Readable, cap: number): { text: () => string; truncated: () => boolean } {
  const chunks: Buffer[] = [];
  let kept = 0;
  let seen = 0;
  stream.on("data", (chunk: Buffer) => {
    seen += chunk.length;
    if (kept >= cap) return;
    const part = chunk.subarray(0, cap - kept);
    chunks.push(part);
    kept += part.length;
  });
  const truncated = () => seen > kept;
  const text = () => {
    const bytes = Buffer.concat(chunks);
    const { text, encoding } = encode(bytes, truncated());
    return encoding === "utf8" ? text : bytes.toString("utf8"); // bytes that are not text become U+FFFD
  };
  return { text, truncated };
}

/** The end of the output, for an error message that may be all that the caller sees. */
function tail(result: { stdout: string; stderr: string }): string {
  const end = (name: string, text: string) => (text === "" ? "" : `; ${name} so far ends with: ${text.slice(-500)}`);
  return end("stdout", result.stdout) + end("stderr", result.stderr);
}

await main(import.meta.url, (args: Args) => runCommand(args));

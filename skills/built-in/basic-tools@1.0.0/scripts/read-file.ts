#!/usr/bin/env node
// Read a file of the workspace, or of a skill below /skills, whole or in parts.

import { closeSync, constants, fstatSync, lstatSync, openSync, readSync } from "node:fs";
import { type Roots, CONTAINER, describe, display, kindOf, openParent, resolve } from "./lib/paths.ts";
import { asUtf8, wholeCharacters } from "./lib/text.ts";
import { main, ToolError } from "./lib/tool.ts";

type Args = { path: string; offset: number; limit: number; encoding?: "utf8" | "base64" };

export function readFile(args: Args, roots: Roots = CONTAINER): unknown {
  const real = resolve(roots, args.path, "read");
  const { parent, name } = openParent(roots, real, "read", args.path);
  try {
    const fd = openRegular(args.path, parent.at(name));
    try {
      return { path: display(roots, real), ...part(args, fd) };
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw describe(error, args.path);
  } finally {
    parent.close();
  }
}

/** Opens a regular file and nothing else: opening a device can act, and opening a FIFO can wait for ever. */
function openRegular(given: string, path: string): number {
  refuse(given, kindOf(lstatSync(path)));
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    refuse(given, kindOf(fstatSync(fd)));
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  return fd;
}

function refuse(given: string, kind: string): void {
  if (kind === "directory") throw new ToolError(`"${given}" is a directory; see its entries with list-directory`);
  if (kind !== "file") throw new ToolError(`"${given}" is a ${kind}, not a regular file`);
}

function part(args: Args, fd: number): Record<string, unknown> {
  const size = fstatSync(fd).size;
  let bytes = readUpTo(fd, args.offset, args.limit);
  const more = args.offset + bytes.length < size;
  let encoding = args.encoding ?? "utf8";
  let content = "";
  let note: string | undefined;
  if (encoding === "utf8") {
    const whole = more ? bytes.subarray(0, wholeCharacters(bytes)) : bytes;
    const text = asUtf8(whole);
    if (text !== undefined && (whole.length > 0 || bytes.length === 0)) {
      bytes = whole;
      content = text;
    } else if (args.encoding === "utf8") {
      throw new ToolError(`"${args.path}" is not UTF-8 text in the part from byte ${args.offset} on; ask with "encoding": "base64", or start at the beginning of a character`);
    } else {
      encoding = "base64";
      note = "not UTF-8 text, therefore given as base64";
    }
  }
  if (encoding === "base64") content = bytes.toString("base64");
  const end = args.offset + bytes.length;
  const result: Record<string, unknown> = { content, encoding, size, offset: args.offset, bytes: bytes.length, truncated: end < size };
  if (end < size) result.next_offset = end;
  if (note !== undefined) result.note = note;
  return result;
}

function readUpTo(fd: number, offset: number, limit: number): Buffer {
  const available = Math.max(0, fstatSync(fd).size - offset);
  const buffer = Buffer.alloc(Math.min(limit, available));
  let filled = 0;
  while (filled < buffer.length) {
    const count = readSync(fd, buffer, filled, buffer.length - filled, offset + filled);
    if (count === 0) break;
    filled += count;
  }
  return buffer.subarray(0, filled);
}

await main(import.meta.url, (args: Args) => readFile(args));

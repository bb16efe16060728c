#!/usr/bin/env node
// Write text or bytes to a file of the workspace, replacing it at once or appending to it.

import { randomBytes } from "node:crypto";
import { closeSync, constants, fchmodSync, fstatSync, fsyncSync, lstatSync, openSync, renameSync, type Stats, unlinkSync, writeSync } from "node:fs";
import { dirname, relative } from "node:path";
import { type Roots, CONTAINER, describe, Directory, display, kindOf, openParent, resolve } from "./lib/paths.ts";
import { main, ToolError } from "./lib/tool.ts";

type Args = { path: string; content: string; encoding: "utf8" | "base64"; append: boolean; create_dirs: boolean; mode?: string };

const MAX_BYTES = 10 * 1024 * 1024;

export function writeFile(args: Args, roots: Roots = CONTAINER): unknown {
  const bytes = decode(args);
  if (args.path.endsWith("/")) throw new ToolError(`"${args.path}" names a directory; name a file in it`);
  refuseLink(roots, args.path);
  const real = resolve(roots, args.path, "write");
  const { parent, name } = args.create_dirs ? makeParent(roots, real, args.path) : openParent(roots, real, "write", args.path);
  try {
    const before = existing(args.path, parent.at(name));
    const mode = args.mode === undefined ? undefined : Number.parseInt(args.mode, 8);
    if (args.append) append(parent.at(name), bytes, mode);
    else replace(parent, name, bytes, mode ?? (before === undefined ? 0o644 : before.mode & 0o777));
    const size = lstatSync(parent.at(name)).size;
    return { path: display(roots, real), bytes: bytes.length, size, created: before === undefined };
  } catch (error) {
    throw describe(error, args.path);
  } finally {
    parent.close();
  }
}

function decode(args: Args): Buffer {
  if (args.encoding === "base64" && !/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/.test(args.content.replace(/\s/g, ""))) {
    throw new ToolError('parameter "content" is not base64, though "encoding" says so');
  }
  const bytes = Buffer.from(args.content, args.encoding);
  if (bytes.length > MAX_BYTES) {
    throw new ToolError(`parameter "content" has ${bytes.length} bytes; at most ${MAX_BYTES} are written at once: write the first part, then the rest with "append": true`);
  }
  return bytes;
}

/** A link at the end of the path is refused before it is resolved: writing never goes through one. */
function refuseLink(roots: Roots, given: string): void {
  const folder = resolve(roots, dirname(given), "write", given);
  let kind: string;
  try {
    kind = kindOf(lstatSync(`${folder}/${given.slice(given.lastIndexOf("/") + 1)}`));
  } catch {
    return; // absent or unreadable: what follows will say so
  }
  if (kind === "link") throw new ToolError(`"${given}" is a symbolic link; write to the file it leads to, or remove the link first`);
}

function makeParent(roots: Roots, real: string, given: string): { parent: Directory; name: string } {
  const missing: string[] = [];
  let place = dirname(real);
  for (; place !== dirname(place); place = dirname(place)) {
    try {
      lstatSync(place);
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw describe(error, given);
      missing.unshift(relative(dirname(place), place));
    }
  }
  if (missing.length === 0) return openParent(roots, real, "write", given);
  let directory = Directory.open(roots, place, "write", given);
  for (const name of missing) {
    const outer = directory;
    try {
      directory = outer.create(roots, name);
    } finally {
      outer.close();
    }
  }
  return { parent: directory, name: relative(dirname(real), real) };
}

function existing(given: string, path: string): Stats | undefined {
  let stat: Stats;
  try {
    stat = lstatSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const kind = kindOf(stat);
  if (kind === "directory") throw new ToolError(`"${given}" is a directory; name a file in it`);
  if (kind !== "file") throw new ToolError(`"${given}" is a ${kind}, not a regular file`);
  return stat;
}

/** Writes beside the file and renames over it: readers see the old content or the new, never a part. */
function replace(parent: Directory, name: string, bytes: Buffer, mode: number): void {
  const temporary = parent.at(`.write-${randomBytes(8).toString("hex")}.tmp`);
  const fd = openSync(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
  try {
    try {
      writeAll(fd, bytes);
      fchmodSync(fd, mode);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, parent.at(name));
  } catch (error) {
    unlinkSync(temporary);
    throw error;
  }
}

function append(path: string, bytes: Buffer, mode: number | undefined): void {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const fd = openSync(path, flags, 0o644);
  try {
    const kind = kindOf(fstatSync(fd));
    if (kind !== "file") throw new ToolError(`it is a ${kind}, not a regular file`);
    writeAll(fd, bytes);
    if (mode !== undefined) fchmodSync(fd, mode);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function writeAll(fd: number, bytes: Buffer): void {
  let written = 0;
  while (written < bytes.length) written += writeSync(fd, bytes, written);
}

await main(import.meta.url, (args: Args) => writeFile(args));

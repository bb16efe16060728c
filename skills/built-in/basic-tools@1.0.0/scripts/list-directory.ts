#!/usr/bin/env node
// List the entries of a directory of the workspace, or of a skill below /skills.

import { lstatSync, opendirSync, readlinkSync, type Stats } from "node:fs";
import { dirname, join } from "node:path";
import { type Roots, CONTAINER, describe, Directory, display, kindOf, resolve } from "./lib/paths.ts";
import { main, ToolError } from "./lib/tool.ts";

type Args = { path: string; recursive: boolean; limit: number; hidden: boolean };
type Entry = { name: string; path: string; type: string; size: number; modified: string; target?: string };
type Listing = { entries: Entry[]; truncated: boolean };

/** A directory with more names than this is cut before it is sorted, so that memory stays bounded. */
const MAX_NAMES = 100_000;
/** Each level keeps a descriptor open while its children are listed. */
const MAX_DEPTH = 64;

export function listDirectory(args: Args, roots: Roots = CONTAINER): unknown {
  const real = resolve(roots, args.path, "read");
  let kind: string;
  try {
    kind = kindOf(lstatSync(real));
  } catch (error) {
    // Pointing at list-directory from list-directory would help nobody: point at the parent.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw describe(error, args.path);
    throw new ToolError(`"${args.path}" does not exist; list "${display(roots, dirname(real))}" to see what there is`);
  }
  if (kind !== "directory") throw new ToolError(`"${args.path}" is a ${kind}, not a directory`);
  const listing: Listing = { entries: [], truncated: false };
  const directory = Directory.open(roots, real, "read", args.path);
  try {
    walk(args, roots, directory, 0, listing);
  } finally {
    directory.close();
  }
  return { path: display(roots, real), ...listing };
}

function walk(args: Args, roots: Roots, directory: Directory, depth: number, listing: Listing): void {
  for (const name of sortedNames(directory, args.hidden, listing)) {
    if (listing.entries.length >= args.limit) {
      listing.truncated = true;
      return;
    }
    let stat: Stats;
    try {
      stat = lstatSync(directory.at(name));
    } catch {
      continue; // removed since the names were read
    }
    listing.entries.push(entry(roots, directory, name, stat));
    if (args.recursive && stat.isDirectory()) descend(args, roots, directory, name, depth, listing);
  }
}

function descend(args: Args, roots: Roots, parent: Directory, name: string, depth: number, listing: Listing): void {
  if (depth + 1 >= MAX_DEPTH) {
    listing.truncated = true;
    return;
  }
  let directory: Directory;
  try {
    directory = parent.child(roots, name, "read");
  } catch {
    return; // not readable, or replaced by a link: it is listed, its content is not
  }
  try {
    walk(args, roots, directory, depth + 1, listing);
  } finally {
    directory.close();
  }
}

function sortedNames(directory: Directory, hidden: boolean, listing: Listing): string[] {
  const names: string[] = [];
  const reader = opendirSync(directory.at("."));
  try {
    for (let found = reader.readSync(); found !== null; found = reader.readSync()) {
      if (!hidden && found.name.startsWith(".")) continue;
      if (names.length >= MAX_NAMES) {
        listing.truncated = true;
        break;
      }
      names.push(found.name);
    }
  } finally {
    reader.closeSync();
  }
  return names.sort();
}

function entry(roots: Roots, directory: Directory, name: string, stat: Stats): Entry {
  const path = display(roots, join(directory.path, name));
  const found: Entry = { name, path, type: kindOf(stat), size: stat.size, modified: stat.mtime.toISOString() };
  if (stat.isSymbolicLink()) found.target = readlinkSync(directory.at(name));
  return found;
}

await main(import.meta.url, (args: Args) => listDirectory(args));

// Keeps file tools inside the folders an agent may use. A path is resolved to its real place first,
// then opened step by step from a directory descriptor whose own place was checked, so that a link
// swapped in between leads to an error and never out of the folder.

import { closeSync, constants, lstatSync, mkdirSync, openSync, readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, normalize, relative, sep } from "node:path";
import { ToolError } from "./tool.ts";

/** The folders a tool may touch: it reads in all of them, and writes in the workspace only. */
export type Roots = { workspace: string; readOnly: string[] };

/** The folders in an agent's container. Deliberately no environment variable: an agent could set it. */
export const CONTAINER: Roots = { workspace: "/workspace", readOnly: ["/skills"] };

export type Access = "read" | "write";

/** A directory that is open and known to lie inside a root; `at` names its entries without a race. */
export class Directory {
  private readonly fd: number;
  /** The real path at the time of opening. */
  readonly path: string;

  private constructor(fd: number, path: string) {
    this.fd = fd;
    this.path = path;
  }

  /** Opens `real`, a path without links, and checks where the descriptor really points; errors name `given`. */
  static open(roots: Roots, real: string, access: Access, given: string): Directory {
    return Directory.openAt(roots, real, access, given);
  }

  /** Opens the entry `name` of this directory, which must be a directory and not a link. */
  child(roots: Roots, name: string, access: Access): Directory {
    return Directory.openAt(roots, this.at(name), access, display(roots, join(this.path, name)));
  }

  /** Creates the directory `name` here unless it exists, and opens it. */
  create(roots: Roots, name: string): Directory {
    try {
      mkdirSync(this.at(name), 0o755);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw describe(error, display(roots, join(this.path, name)));
    }
    return this.child(roots, name, "write");
  }

  /** A path of the entry `name` that stays in this directory whatever happens to its parents. */
  at(name: string): string {
    return `/proc/self/fd/${this.fd}/${name}`;
  }

  close(): void {
    closeSync(this.fd);
  }

  private static openAt(roots: Roots, path: string, access: Access, given: string): Directory {
    let fd: number;
    try {
      fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    } catch (error) {
      throw describe(error, given);
    }
    const real = placeOf(fd);
    if (!allowed(roots, real, access)) {
      closeSync(fd);
      throw outside(roots, given, access);
    }
    return new Directory(fd, real);
  }
}

/** Where an open descriptor really points. */
function placeOf(fd: number): string {
  return readlinkSync(`/proc/self/fd/${fd}`);
}

/**
 * Turns a path as a model gives it (relative to the workspace, or absolute) into the real path:
 * links resolved as far as the path exists, and inside the roots, or an error that names `given`.
 */
export function resolve(roots: Roots, path: string, access: Access, given: string = path): string {
  if (path.includes("\0")) throw new ToolError("the path contains a NUL character");
  const full = normalize(isAbsolute(path) ? path : join(roots.workspace, path)).replace(/(?<=.)\/+$/, "");
  let existing = full;
  const missing: string[] = [];
  for (;;) {
    try {
      lstatSync(existing);
      break;
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code !== "ENOENT" && code !== "ENOTDIR") throw describe(error, given);
      if (existing === "/") throw describe(error, given);
      missing.unshift(basename(existing));
      existing = dirname(existing);
    }
  }
  let real: string;
  try {
    real = realpathSync(existing);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT") throw new ToolError(`"${given}" goes through a symbolic link that leads nowhere`);
    throw describe(error, given);
  }
  const place = join(real, ...missing);
  if (!allowed(roots, place, access)) throw outside(roots, given, access);
  return place;
}

/** Opens the directory that holds `real`; the caller closes it. */
export function openParent(roots: Roots, real: string, access: Access, given: string): { parent: Directory; name: string } {
  if (isRoot(roots, real)) throw new ToolError(`"${given}" is a directory; name a file in it`);
  return { parent: Directory.open(roots, dirname(real), access, given), name: basename(real) };
}

/** The path as a model should use it: relative inside the workspace, else absolute. */
export function display(roots: Roots, real: string): string {
  const root = realRoot(roots.workspace);
  return inside(root, real) ? relative(root, real) || "." : real;
}

/** Turns a file system error into words that name the path as it was given. */
export function describe(error: unknown, given: string): Error {
  if (error instanceof ToolError) return error;
  const code = (error as NodeJS.ErrnoException).code;
  const words: Record<string, string> = {
    ENOENT: "does not exist; see what there is with list-directory",
    EACCES: "may not be accessed (permission denied)",
    EPERM: "may not be changed (operation not permitted)",
    EROFS: "is on a read-only file system",
    EISDIR: "is a directory",
    ENOTDIR: "is not a directory, or a part of its path is not",
    ELOOP: "is, or goes through, a symbolic link that cannot be followed",
    ENAMETOOLONG: "is too long",
    ENOSPC: "cannot be written: no space is left",
    EDQUOT: "cannot be written: the disk quota is used up",
    EMFILE: "cannot be opened: too many files are open",
    ENXIO: "is a pipe or socket, not a regular file",
  };
  const text = code === undefined ? undefined : words[code];
  return text === undefined ? (error as Error) : new ToolError(`"${given}" ${text}`);
}

/** Says what an entry is when it is not the regular file or directory that was wanted. */
export function kindOf(stat: { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean; isFIFO(): boolean; isSocket(): boolean }): string {
  if (stat.isFile()) return "file";
  if (stat.isDirectory()) return "directory";
  if (stat.isSymbolicLink()) return "link";
  if (stat.isFIFO()) return "fifo";
  return stat.isSocket() ? "socket" : "device";
}

function allowed(roots: Roots, real: string, access: Access): boolean {
  const folders = access === "write" ? [roots.workspace] : [roots.workspace, ...roots.readOnly];
  return folders.some((folder) => inside(realRoot(folder), real));
}

function outside(roots: Roots, given: string, access: Access): ToolError {
  const also = access === "read" ? `, or below ${roots.readOnly.join(", ")}` : "; everything else is closed to this tool";
  return new ToolError(`"${given}" is outside the workspace: give a path below ${roots.workspace} (relative paths start there)${also}`);
}

function isRoot(roots: Roots, real: string): boolean {
  return [roots.workspace, ...roots.readOnly].some((folder) => realRoot(folder) === real);
}

function inside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

function realRoot(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}

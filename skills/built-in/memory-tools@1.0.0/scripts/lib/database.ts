// The agent's memory, one SQLite file in its workspace. Several processes may use it at once: each waits for its turn.

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { KINDS } from "./kinds.ts";
import { ToolError } from "./tool.ts";

const FILE = "/workspace/.skep/memory.db";
/** How long one process waits for another. */
const PATIENCE_MS = 20_000;
const PAUSE_MS = 20;

/** Does `work` in a transaction of its own, alone; what it throws undoes it. */
export function transaction<T>(work: (db: DatabaseSync) => T, file: string = FILE): T {
  const db = open(file);
  try {
    return patiently(() => {
      db.exec("BEGIN IMMEDIATE");
      try {
        prepare(db);
        const done = work(db);
        db.exec("COMMIT");
        return done;
      } catch (error) {
        if (db.isTransaction) db.exec("ROLLBACK");
        throw error;
      }
    });
  } catch (error) {
    throw described(error);
  } finally {
    db.close();
  }
}

function open(file: string): DatabaseSync {
  try {
    mkdirSync(dirname(file), { recursive: true });
    const db = new DatabaseSync(file, { timeout: PATIENCE_MS });
    // Of several that make the file at once, one finds it locked without being asked to wait.
    patiently(() => db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"));
    return db;
  } catch (error) {
    throw described(error);
  }
}

const BUSY = 5;

function patiently<T>(work: () => T): T {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return work();
    } catch (error) {
      const busy = ((error as { errcode?: number }).errcode ?? 0) % 256 === BUSY;
      if (!busy || performance.now() > until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
    }
  }
}

/** Makes the tables where they are missing. */
function prepare(db: DatabaseSync): void {
  const { user_version } = db.prepare("PRAGMA user_version").get() as { user_version: number };
  if (user_version === 1) return;
  if (user_version > 1) throw new ToolError("the memory was written by a newer version of memory-tools: use that one");
  for (const [table, { columns }] of Object.entries(KINDS)) {
    const names = columns.join(", ");
    const of = (row: string) => columns.map((column) => `${row}.${column}`).join(", ");
    const gone = `INSERT INTO ${table}_search (${table}_search, rowid, ${names}) VALUES ('delete', old.id, ${of("old")});`;
    const come = `INSERT INTO ${table}_search (rowid, ${names}) VALUES (new.id, ${of("new")});`;
    db.exec(`
      CREATE TABLE ${table} (id INTEGER PRIMARY KEY AUTOINCREMENT, ${columns.map((column) => `${column} TEXT`).join(", ")},
        created_at TEXT NOT NULL, updated_at TEXT NOT NULL) STRICT;
      CREATE VIRTUAL TABLE ${table}_search USING fts5 (${names}, content = '${table}', content_rowid = 'id',
        tokenize = 'porter unicode61 remove_diacritics 2');
      CREATE TRIGGER ${table}_come AFTER INSERT ON ${table} BEGIN ${come} END;
      CREATE TRIGGER ${table}_gone AFTER DELETE ON ${table} BEGIN ${gone} END;
      CREATE TRIGGER ${table}_changed AFTER UPDATE ON ${table} BEGIN ${gone} ${come} END;`);
  }
  db.exec("PRAGMA user_version = 1");
}

function described(error: unknown): Error {
  if (error instanceof ToolError) return error;
  const { code, errcode, message } = error as { code?: string; errcode?: number; message: string };
  const words: Record<number, string> = {
    5: "others use the memory without a pause; try again",
    8: "the memory cannot be written: it is read-only",
    11: `the memory is damaged; move ${FILE} away to begin anew`,
    13: "the memory cannot be written: no space is left",
    14: `the memory cannot be opened; is something in the way of ${FILE}?`,
    26: `${FILE} is no memory; move it away to begin anew`,
  };
  if (code === "ERR_SQLITE_ERROR" && errcode !== undefined) return new ToolError(words[errcode % 256] ?? `the memory failed: ${message}`);
  return new ToolError(`the memory cannot be opened: ${message}`);
}

// Storing, finding, listing and forgetting, the same for every kind of memory.

import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { transaction } from "./database.ts";
import { errorFacts } from "./errors.ts";
import { type Kind, KINDS } from "./kinds.ts";
import { ToolError } from "./tool.ts";

type Row = Record<string, unknown>;
type Filters = { category?: string; status?: string };
export type Search = Filters & { query: string; limit: number };
export type List = Filters & { limit: number; offset: number };

/** Characters of one text. */
const MAX_TEXT = 50_000;
/** The category of facts that the hive stores as well. */
const ERROR = "error";

/** Stores an entry; one with the same key is changed, in what is given. */
export function store(kind: Kind, given: Row): Row {
  const { columns, key } = KINDS[kind];
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === "string" && value.length > MAX_TEXT) {
      throw new ToolError(`parameter "${name}" has ${value.length} characters; at most ${MAX_TEXT} are remembered: store a summary`);
    }
  }
  const now = new Date().toISOString();
  const entry: Row = { ...defaults(kind, now), ...given };
  return transaction((db) => {
    const known = key.length === 0 ? undefined : same(db, kind, entry);
    if (known !== undefined) {
      const changed = Object.keys(given).filter((column) => columns.includes(column));
      const set = [...changed.map((column) => `${column} = ?`), "updated_at = ?"].join(", ");
      db.prepare(`UPDATE ${kind} SET ${set} WHERE id = ?`).run(...texts(given, changed), now, known.id as number);
      return { ...one(db, kind, known.id as number), created: false };
    }
    const names = [...columns, "created_at", "updated_at"];
    const places = names.map(() => "?").join(", ");
    const made = db.prepare(`INSERT INTO ${kind} (${names.join(", ")}) VALUES (${places})`).run(...texts(entry, columns), now, now);
    return { ...one(db, kind, Number(made.lastInsertRowid)), created: true };
  });
}

function defaults(kind: Kind, now: string): Row {
  if (kind === "fact") return { agent_id: process.env.SKEP_AGENT };
  if (kind === "project") return { status: "active" };
  return kind === "conversation" ? { happened_at: now } : {};
}

function texts(from: Row, columns: string[]): SQLInputValue[] {
  return columns.map((column) => (from[column] as string | undefined) ?? null);
}

function same(db: DatabaseSync, kind: Kind, entry: Row): Row | undefined {
  const { key } = KINDS[kind];
  const those = key.map((column) => `${column} = ? COLLATE NOCASE`).join(" AND ");
  return db.prepare(`SELECT id FROM ${kind} WHERE ${those}`).get(...texts(entry, key));
}

function one(db: DatabaseSync, kind: Kind, id: number): Row {
  return { ...db.prepare(`SELECT * FROM ${kind} WHERE id = ?`).get(id) };
}

/** Entries that have every word, the best match first. */
export async function search(kind: Kind, args: Search): Promise<Row> {
  const words = quoted(args.query);
  if (words === undefined) throw new ToolError(`parameter "query": ${JSON.stringify(args.query)} has no word to search for`);
  const { where, values } = narrowed(kind, args);
  const found = transaction((db) =>
    db
      .prepare(`SELECT e.* FROM ${kind}_search AS s JOIN ${kind} AS e ON e.id = s.rowid
        WHERE ${kind}_search MATCH ? AND ${where} ORDER BY s.rank, e.id DESC LIMIT ?`)
      .all(words, ...values, args.limit),
  );
  const hives = kind === "fact" ? (await told(args)).filter((fact) => hasAll(fact, args.query)) : [];
  return answer(kind, [...found, ...hives].slice(0, args.limit), found.length + hives.length);
}

/** Entries, the last changed first. */
export async function list(kind: Kind, args: List): Promise<Row> {
  const { where, values } = narrowed(kind, args);
  const { found, total } = transaction((db) => {
    const count = db.prepare(`SELECT count(*) AS n FROM ${kind} AS e WHERE ${where}`).get(...values) as { n: number };
    const page = db.prepare(`SELECT e.* FROM ${kind} AS e WHERE ${where} ORDER BY e.updated_at DESC, e.id DESC LIMIT ? OFFSET ?`);
    return { found: page.all(...values, args.limit, args.offset), total: count.n };
  });
  // The hive's come after the agent's own.
  const hives = kind === "fact" && args.category === ERROR ? await told(args) : [];
  const from = Math.max(0, args.offset - total);
  return answer(kind, [...found, ...hives.slice(from)].slice(0, args.limit), total + hives.length);
}

/** Forgets an entry; false when there was none. */
export function forget(kind: Kind, id: number): Row {
  const gone = transaction((db) => db.prepare(`DELETE FROM ${kind} WHERE id = ?`).run(id));
  return { id, deleted: Number(gone.changes) > 0 };
}

function narrowed(kind: Kind, args: Filters): { where: string; values: SQLInputValue[] } {
  const given = KINDS[kind].filters.filter((column) => args[column as keyof Filters] !== undefined);
  const where = ["1", ...given.map((column) => `e.${column} = ? COLLATE NOCASE`)].join(" AND ");
  return { where, values: given.map((column) => args[column as keyof Filters] as string) };
}

/** What the hive knows of, when facts of that category are wanted. */
async function told(args: Filters): Promise<Row[]> {
  return args.category === undefined || args.category === ERROR ? await errorFacts() : [];
}

function hasAll(fact: Row, query: string): boolean {
  const text = Object.values(fact).join(" ").toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function answer(kind: Kind, entries: Row[], total: number): Row {
  return { [KINDS[kind].plural]: entries.map((entry) => ({ ...entry })), count: entries.length, total };
}

/** Each word as a string of FTS5, the last one as a beginning: none of it is syntax. */
function quoted(query: string): string | undefined {
  const words = query.split(/[\s\0]+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).slice(0, 16);
  return words.length === 0 ? undefined : words.map((word) => `"${word.replaceAll('"', '""')}"`).join(" ") + "*";
}

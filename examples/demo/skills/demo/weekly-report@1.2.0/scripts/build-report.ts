#!/usr/bin/env node
// Gather the notes of the last days into one markdown report, signed when a signing key is set.

import { createHmac } from "node:crypto";
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

type Args = { days?: number; summary?: string };

const WORKSPACE = "/workspace";
const DAY_MS = 24 * 60 * 60 * 1000;

function build(args: Args): { path: string; notes: string[]; signature: string | null } {
  const days = args.days ?? 7;
  if (typeof days !== "number" || !(days > 0)) throw new Error(`parameter "days": expected a number above 0, got ${JSON.stringify(args.days)}`);
  if (args.summary !== undefined && typeof args.summary !== "string") throw new Error('parameter "summary": expected a string');
  const notes = recentNotes(Date.now() - days * DAY_MS);
  const date = new Date().toISOString().slice(0, 10);
  const parts = notes.map((name) => `## ${name.replace(/\.md$/, "")}\n\n${readFileSync(join(WORKSPACE, "notes", name), "utf8").trim()}\n`);
  const summary = args.summary === undefined ? "" : `${args.summary.trim()}\n\n`;
  const report = `# Report of ${date}\n\n${summary}${parts.join("\n") || "No notes in this time.\n"}`;
  const path = `reports/${date}.md`;
  mkdirSync(join(WORKSPACE, "reports"), { recursive: true });
  writeFileSync(join(WORKSPACE, path), report);
  const key = process.env.REPORT_SIGNING_KEY;
  return { path, notes, signature: key ? createHmac("sha256", key).update(report).digest("hex") : null };
}

function recentNotes(since: number): string[] {
  let names: string[];
  try {
    names = readdirSync(join(WORKSPACE, "notes"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  return names
    .filter((name) => name.endsWith(".md"))
    .filter((name) => {
      const stat = lstatSync(join(WORKSPACE, "notes", name));
      return stat.isFile() && stat.mtimeMs >= since;
    })
    .sort();
}

try {
  const input = process.argv[2] || readFileSync(0, "utf8") || "{}";
  console.log(JSON.stringify({ success: true, result: build(JSON.parse(input)) }));
} catch (error) {
  console.log(JSON.stringify({ success: false, error: (error as Error).message }));
  process.exitCode = 1;
}

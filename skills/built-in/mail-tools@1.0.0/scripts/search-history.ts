#!/usr/bin/env node
// Search the words of messages that the agent got or sent.

import { box, brief } from "./lib/mail.ts";
import { main } from "./lib/tool.ts";

type Args = { query: string; box: "all" | "inbox" | "sent"; limit: number };

async function searchHistory(args: Args): Promise<unknown> {
  const boxes = args.box === "all" ? (["inbox", "sent"] as const) : [args.box];
  const found = await Promise.all(boxes.map((name) => box(name, { q: args.query }, args.limit)));
  const messages = found.flatMap(({ items }) => items).sort((a, b) => b.id - a.id);
  const more = found.some(({ more }) => more) || messages.length > args.limit;
  return { messages: messages.slice(0, args.limit).map(brief), more };
}

await main(import.meta.url, (args: Args) => searchHistory(args));

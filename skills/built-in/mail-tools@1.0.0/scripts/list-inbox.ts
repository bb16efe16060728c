#!/usr/bin/env node
// List the messages of the agent's inbox, or of what it sent or what waits, newest first.

import { brief, box, type Box } from "./lib/mail.ts";
import { main } from "./lib/tool.ts";

type Args = { box: Box; unread: boolean; limit: number };

/** Messages that are looked at for unread ones. */
const LOOKED_AT = 2000;

async function listInbox(args: Args): Promise<unknown> {
  const { items, more } = await box(args.box, {}, args.unread ? LOOKED_AT : args.limit);
  const wanted = args.unread ? items.filter((mail) => mail.read_at === null) : items;
  return { box: args.box, messages: wanted.slice(0, args.limit).map(brief), more: more || wanted.length > args.limit };
}

await main(import.meta.url, (args: Args) => listInbox(args));

#!/usr/bin/env node
// Count the agent's messages: in the inbox, unread, sent, waiting, and with whom.

import { AGENT } from "./lib/hive.ts";
import { box, type Mail } from "./lib/mail.ts";
import { main } from "./lib/tool.ts";

type Args = { days?: number };

/** Messages of each box that are counted. */
const COUNTED = 5000;

async function mailStats(args: Args): Promise<unknown> {
  const since = args.days === undefined ? 0 : Date.now() - args.days * 24 * 3600 * 1000;
  const read = async (name: "inbox" | "sent" | "queue") => {
    const { items, more } = await box(name, {}, COUNTED);
    return { items: items.filter((mail) => Date.parse(mail.sent_at) >= since), more };
  };
  const [inbox, sent, queue] = await Promise.all([read("inbox"), read("sent"), read("queue")]);
  return {
    inbox: { total: inbox.items.length, unread: inbox.items.filter((mail) => mail.read_at === null).length, by_status: count(inbox.items, (mail) => [mail.status]) },
    sent: { total: sent.items.length, by_status: count(sent.items, (mail) => [mail.status]) },
    queue: queue.items.length,
    received_from: count(inbox.items, (mail) => [mail.from]),
    sent_to: count(sent.items, (mail) => mail.to.filter((name) => name !== AGENT)),
    complete: !(inbox.more || sent.more || queue.more),
  };
}

function count(mails: Mail[], of: (mail: Mail) => string[]): Record<string, number> {
  const counts = new Map<string, number>();
  for (const name of mails.flatMap(of)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Object.fromEntries([...counts].sort(([a, n], [b, m]) => m - n || a.localeCompare(b)));
}

await main(import.meta.url, (args: Args) => mailStats(args));

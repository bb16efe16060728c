// Messages as the supervisor tells of them, and as these tools show them.

import { AGENT, list } from "./hive.ts";

export type Mail = {
  id: number;
  thread: number;
  from: string;
  to: string[];
  subject: string;
  body: string;
  attachments: { name: string; size: number; path: string | null }[];
  sent_at: string;
  read_at: string | null;
  status: "queued" | "delivered" | "answered" | "held" | "dead";
  reason: string | null;
};

export type Box = "inbox" | "sent" | "queue";

const EXCERPT = 200;

/** Messages of the agent's own box, newest first. */
export function box(box: Box, query: Record<string, string>, most: number): Promise<{ items: Mail[]; more: boolean }> {
  return list<Mail>(`/v1/agents/${AGENT}/mail`, { box, ...query }, most);
}

/** A message in short: the whole is read with read_mail. */
export function brief(mail: Mail): Record<string, unknown> {
  const { id, thread, from, to, subject, sent_at, read_at, status, reason } = mail;
  const text = mail.body.replace(/\s+/g, " ").trim();
  const characters = [...text];
  const excerpt = characters.length > EXCERPT ? characters.slice(0, EXCERPT - 1).join("") + "…" : text;
  const files = mail.attachments.map((file) => file.path ?? file.name);
  return { id, thread, from, to, subject, sent_at, read: read_at !== null, status, ...(reason === null ? {} : { reason }), excerpt, attachments: files };
}

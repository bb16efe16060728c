// Asks the supervisor over the agent's own socket. What it refuses becomes an error in its words.

import { request } from "node:http";
import { ToolError } from "./tool.ts";

/** The agent whose tools these are. */
export const AGENT = process.env.SKEP_AGENT ?? "";

/** Sends a request and returns the JSON that comes back; nothing when there is none. */
export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const socketPath = process.env.SKEP_API ?? "/skep/api.sock";
  const text = body === undefined ? undefined : JSON.stringify(body);
  const { status, answer } = await new Promise<{ status: number; answer: string }>((done, fail) => {
    const gone = (error: Error) => fail(new ToolError(`the supervisor does not answer at ${socketPath}: ${error.message}`));
    const headers: Record<string, string> = { Host: "skep", Accept: "application/json" };
    if (text !== undefined) headers["Content-Type"] = "application/json";
    const asked = request({ socketPath, method, path, headers, agent: false }, (response) => {
      let answer = "";
      response.setEncoding("utf8");
      response.on("data", (piece) => (answer += piece));
      response.on("error", gone);
      response.on("end", () => done({ status: response.statusCode ?? 0, answer }));
    });
    asked.on("error", gone);
    asked.end(text);
  });
  let told: unknown;
  try {
    told = answer === "" ? undefined : JSON.parse(answer);
  } catch {
    throw new ToolError(`the supervisor's answer (${status}) is not JSON`);
  }
  if (status < 200 || status > 299) throw refused(status, told);
  return told as T;
}

type Problem = { detail?: string; errors?: { pointer: string; detail: string }[] };

function refused(status: number, told: unknown): ToolError {
  const { detail, errors } = (told ?? {}) as Problem;
  const places = (errors ?? []).map((error) => `${error.pointer}: ${error.detail}`);
  return new ToolError(places.length > 1 ? places.join("; ") : (detail ?? `the supervisor answered ${status}`));
}

/** Reads a list page by page, at most `most` items; `more` when there are others. */
export async function list<T>(path: string, query: Record<string, string>, most: number): Promise<{ items: T[]; more: boolean }> {
  const items: T[] = [];
  let cursor: string | null = null;
  do {
    const limit = String(Math.min(1000, most - items.length));
    const words = new URLSearchParams({ ...query, limit, ...(cursor === null ? {} : { cursor }) });
    const page: { items: T[]; next: string | null } = await ask("GET", `${path}?${words}`);
    items.push(...page.items);
    cursor = page.next;
  } while (cursor !== null && items.length < most);
  return { items, more: cursor !== null };
}

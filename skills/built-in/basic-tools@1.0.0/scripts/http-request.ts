#!/usr/bin/env node
// Send an HTTP or HTTPS request and return the status, headers and body of the answer.

import { encode } from "./lib/text.ts";
import { main, ToolError } from "./lib/tool.ts";

type Args = {
  url: string;
  method?: string;
  headers: Record<string, string>;
  body?: string;
  json?: unknown;
  timeout_ms: number;
  max_bytes: number;
  follow_redirects: boolean;
};
type Request = { url: URL; method: string; headers: Headers; body?: string };

const MAX_REDIRECTS = 5;
const REDIRECTS = [301, 302, 303, 307, 308];

export async function httpRequest(args: Args): Promise<unknown> {
  const started = performance.now();
  const signal = AbortSignal.timeout(args.timeout_ms);
  let request = firstRequest(args);
  const visited: string[] = [];
  for (;;) {
    const response = await send(request, signal, args.timeout_ms);
    const location = response.headers.get("location");
    if (!args.follow_redirects || !REDIRECTS.includes(response.status) || location === null) {
      const answer = await receive(request, response, args);
      return { ...answer, redirects: visited.length, duration_ms: Math.round(performance.now() - started) };
    }
    await response.body?.cancel();
    visited.push(request.url.href);
    if (visited.length > MAX_REDIRECTS) {
      throw new ToolError(`more than ${MAX_REDIRECTS} redirects, the last to ${location}; with "follow_redirects": false each answer is returned as it is`);
    }
    request = redirected(request, response.status, location);
  }
}

function firstRequest(args: Args): Request {
  if (args.body !== undefined && args.json !== undefined) throw new ToolError('give "body" or "json", not both');
  const body = args.json === undefined ? args.body : JSON.stringify(args.json);
  const method = args.method ?? (body === undefined ? "GET" : "POST");
  if (body !== undefined && (method === "GET" || method === "HEAD")) {
    throw new ToolError(`a ${method} request has no body; leave out "body" and "json", or use POST, PUT, PATCH or DELETE`);
  }
  const headers = new Headers({ "user-agent": "skep-basic-tools/1.0", accept: "*/*" });
  if (args.json !== undefined) headers.set("content-type", "application/json");
  for (const [name, value] of Object.entries(args.headers)) {
    try {
      headers.set(name, value);
    } catch {
      throw new ToolError(`parameter "headers": "${name}" is not a valid header, or its value has characters that a header may not have`);
    }
  }
  return { url: checkedUrl(args.url), method, headers, body };
}

function checkedUrl(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href);
  if (url === null) throw new ToolError(`parameter "url": "${text}" is not an absolute URL; write it with its scheme, such as https://example.com/path`);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new ToolError(`parameter "url": only http and https are possible, not ${url.protocol.slice(0, -1)} ("${text}")`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new ToolError('parameter "url": a user name or password in the URL is not sent; use an "authorization" header');
  }
  return url;
}

/** The request that follows a redirect, by the rules of the Fetch standard. */
function redirected(request: Request, status: number, location: string): Request {
  const url = checkedUrl(location, request.url);
  const headers = new Headers(request.headers);
  let { method, body } = request;
  if ((status === 303 && method !== "HEAD") || ((status === 301 || status === 302) && method === "POST")) {
    method = "GET";
    body = undefined;
    for (const name of ["content-type", "content-length", "content-encoding", "content-language", "content-location"]) headers.delete(name);
  }
  if (url.origin !== request.url.origin) {
    for (const name of ["authorization", "cookie", "proxy-authorization", "host"]) headers.delete(name);
  }
  return { url, method, headers, body };
}

async function send(request: Request, signal: AbortSignal, timeoutMs: number): Promise<Response> {
  try {
    return await fetch(request.url, { method: request.method, headers: request.headers, body: request.body, redirect: "manual", signal });
  } catch (error) {
    throw failure(error, request, timeoutMs, "no answer came");
  }
}

async function receive(request: Request, response: Response, args: Args): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let received = 0;
  let truncated = false;
  try {
    // Leaving the loop cancels the rest of the transfer.
    for await (const chunk of response.body ?? []) {
      const room = args.max_bytes - received;
      truncated = chunk.length > room;
      chunks.push(Buffer.from(chunk.subarray(0, room)));
      received += Math.min(chunk.length, room);
      if (truncated) break;
    }
  } catch (error) {
    throw failure(error, request, args.timeout_ms, `the answer (status ${response.status}) stopped after ${received} bytes of its body`);
  }
  const { text, encoding } = decode(Buffer.concat(chunks), truncated, response.headers.get("content-type"));
  return { status: response.status, url: request.url.href, headers: plainHeaders(response.headers), body: text, encoding, truncated };
}

/** Text in UTF-8 or in the character set that the answer names, else base64. */
function decode(bytes: Buffer, truncated: boolean, contentType: string | null): { text: string; encoding: string } {
  const charset = /charset="?([^\s;"]+)/i.exec(contentType ?? "")?.[1];
  const encoded = encode(bytes, truncated);
  if (encoded.encoding === "utf8" || charset === undefined || /^utf-?8$/i.test(charset)) return encoded;
  try {
    return { text: new TextDecoder(charset).decode(bytes), encoding: "utf8" };
  } catch {
    return encoded;
  }
}

function plainHeaders(headers: Headers): Record<string, string | string[]> {
  const plain: Record<string, string | string[]> = Object.fromEntries(headers);
  const cookies = headers.getSetCookie();
  if (cookies.length > 0) plain["set-cookie"] = cookies;
  return plain;
}

/** Words for a failed request: what failed, for which host, and what can be done. */
function failure(error: unknown, request: Request, timeoutMs: number, state: string): ToolError {
  const host = request.url.host;
  if (error instanceof Error && error.name === "TimeoutError") {
    return new ToolError(`${host}: timed out after ${timeoutMs} ms; ${state}. Raise "timeout_ms" (at most 300000) if the server is slow`);
  }
  let cause = (error as Error).cause as (NodeJS.ErrnoException & { errors?: NodeJS.ErrnoException[] }) | undefined;
  if (cause?.errors?.length) cause = cause.errors[0];
  const code = cause?.code ?? "";
  const noNetwork = 'this agent may have no network (network = "none" in skep.toml), or may not reach this host; only the operator can change that';
  const words: Record<string, string> = {
    ENOTFOUND: "no such host name is known; check the spelling",
    EAI_AGAIN: `the host name cannot be looked up: ${noNetwork}`,
    ENETUNREACH: `the network cannot be reached: ${noNetwork}`,
    EHOSTUNREACH: `the host cannot be reached: ${noNetwork}`,
    EPERM: `the connection was not permitted: ${noNetwork}`,
    EACCES: `the connection was not permitted: ${noNetwork}`,
    ECONNREFUSED: "the connection was refused: nothing listens there, or a firewall forbids it",
    ECONNRESET: "the connection was closed by the other side",
    UND_ERR_SOCKET: "the connection was closed by the other side",
    UND_ERR_CONNECT_TIMEOUT: `the connection timed out; ${state}`,
    ETIMEDOUT: `the connection timed out; ${state}`,
  };
  const detail = [(error as Error).message, cause?.message, code].filter(Boolean).join(": ");
  return new ToolError(`${host}: ${words[code] === undefined ? detail : `${words[code]} (${code})`}`);
}

await main(import.meta.url, httpRequest);

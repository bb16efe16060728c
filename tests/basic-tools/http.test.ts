// http-request against a real server on this machine.

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { assertHas, invoke } from "./support.ts";

const NOWHERE = { workspace: "/nonexistent", readOnly: [] };
const servers: ReturnType<typeof createServer>[] = [];
let base: string;
let other: string;

const routes: Record<string, (request: IncomingMessage, response: ServerResponse, body: string) => void> = {
  "/echo": (request, response, body) => response.end(JSON.stringify({ method: request.method, headers: request.headers, body })),
  "/missing": (_, response) => response.writeHead(404, { "set-cookie": ["a=1", "b=2"] }).end("no"),
  "/big": (_, response) => {
    const more = () => {
      while (!response.destroyed && response.write("x".repeat(65536)));
    };
    response.on("drain", more);
    more();
  },
  "/bytes": (_, response) => response.end(Buffer.from([0xff, 0xfe])),
  "/latin": (_, response) => response.writeHead(200, { "content-type": "text/plain; charset=iso-8859-1" }).end(Buffer.from([0xe4])),
  "/zip": (_, response) => response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("x".repeat(1000))),
  "/never": () => {},
  "/stalls": (_, response) => response.write("abc"),
  "/loop": (_, response) => response.writeHead(302, { location: "/loop" }).end(),
  "/see-other": (_, response) => response.writeHead(303, { location: "/echo" }).end(),
  "/permanent": (_, response) => response.writeHead(308, { location: "/echo" }).end(),
  "/away": (_, response) => response.writeHead(307, { location: `${other}/echo` }).end(),
  "/to-file": (_, response) => response.writeHead(302, { location: "file:///etc/passwd" }).end(),
  "/hangs-up": (request) => request.socket.destroy(),
};

async function serve(): Promise<string> {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    routes[request.url ?? ""](request, response, body);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  servers.push(server);
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

before(async () => {
  base = await serve();
  other = await serve();
});

after(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

const cases: { name: string; args: Record<string, unknown> & { url: string }; result?: unknown; echo?: unknown; error?: RegExp }[] = [
  { name: "a GET is the default", args: { url: "/echo" }, result: { status: 200, encoding: "utf8", truncated: false, redirects: 0 }, echo: { method: "GET", body: "" } },
  { name: "a body makes a POST", args: { url: "/echo", body: "hi", headers: { "X-A": "b" } }, echo: { method: "POST", body: "hi", headers: { "x-a": "b" } } },
  { name: "json is sent as json", args: { url: "/echo", json: { a: [1] }, method: "PUT" }, echo: { method: "PUT", body: '{"a":[1]}', headers: { "content-type": "application/json" } } },
  { name: "a 404 is an answer", args: { url: "/missing" }, result: { status: 404, body: "no", headers: { "set-cookie": ["a=1", "b=2"] } } },
  { name: "an endless body is cut", args: { url: "/big", max_bytes: 5 }, result: { body: "xxxxx", truncated: true } },
  { name: "no body at all can be asked for", args: { url: "/echo", max_bytes: 0 }, result: { body: "", truncated: true } },
  { name: "bytes come as base64", args: { url: "/bytes" }, result: { body: "//4=", encoding: "base64" } },
  { name: "the character set of the answer is used", args: { url: "/latin" }, result: { body: "ä", encoding: "utf8" } },
  { name: "the cap counts unpacked bytes", args: { url: "/zip", max_bytes: 10 }, result: { body: "xxxxxxxxxx", truncated: true } },
  { name: "a server that never answers", args: { url: "/never", timeout_ms: 200 }, error: /timed out after 200 ms; no answer came/ },
  { name: "a body that stalls", args: { url: "/stalls", timeout_ms: 300 }, error: /timed out after 300 ms; the answer \(status 200\) stopped after 3 bytes/ },
  { name: "redirects without end", args: { url: "/loop" }, error: /more than 5 redirects/ },
  { name: "redirects are left alone when asked", args: { url: "/loop", follow_redirects: false }, result: { status: 302, headers: { location: "/loop" } } },
  { name: "303 turns a POST into a GET", args: { url: "/see-other", body: "x" }, result: { redirects: 1 }, echo: { method: "GET", body: "" } },
  { name: "308 keeps method and body", args: { url: "/permanent", body: "x" }, echo: { method: "POST", body: "x" } },
  { name: "credentials stay at their origin", args: { url: "/away", headers: { authorization: "Bearer s", "x-a": "b" } }, echo: { headers: { authorization: undefined, "x-a": "b" } } },
  { name: "a redirect to a file is refused", args: { url: "/to-file" }, error: /only http and https are possible, not file/ },
  { name: "a server that hangs up", args: { url: "/hangs-up" }, error: /the connection was closed by the other side/ },
];

for (const { name, args, result, echo, error } of cases) {
  test(`http-request: ${name}`, async () => {
    const outcome = await invoke("http-request", { ...args, url: base + args.url }, NOWHERE);
    if (error !== undefined) {
      assert.ok(!outcome.success, JSON.stringify(outcome));
      assert.match(outcome.error, error);
      return;
    }
    assert.ok(outcome.success, JSON.stringify(outcome));
    if (result !== undefined) assertHas(outcome.result, result);
    if (echo !== undefined) assertHas(JSON.parse((outcome.result as { body: string }).body), echo);
  });
}

test("http-request: a refused connection is told with its host", async () => {
  const unused = await serve();
  const server = servers.pop();
  await new Promise((done) => server?.close(done));
  const outcome = await invoke("http-request", { url: unused }, NOWHERE);
  assert.ok(!outcome.success);
  assert.match(outcome.error, /^127\.0\.0\.1:\d+: the connection was refused/);
});

test("http-request: a name that nobody has is told", async () => {
  const outcome = await invoke("http-request", { url: "http://no-such-host.invalid/" }, NOWHERE);
  assert.ok(!outcome.success);
  assert.match(outcome.error, /^no-such-host\.invalid: (no such host name is known|the host name cannot be looked up)/);
});

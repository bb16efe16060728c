// What went wrong in background tasks of the hive, as facts. A hive that keeps none has none.

import { request } from "node:http";

export type ErrorFact = { id: string; fact: string; category: "error"; agent_id: string; source: "hive"; created_at: string };

type Told = { items?: { id: number; fact: string; agent_id: string; created_at: string }[] };

/** Time for the supervisor to answer. */
const PATIENCE_MS = 5000;

/** The newest ones; the agent's own memory does not depend on whether the supervisor answers. */
export async function errorFacts(): Promise<ErrorFact[]> {
  const told = await get("/v1/facts?category=error&limit=500");
  return (told.items ?? []).map(({ id, fact, agent_id, created_at }) => ({ id: `hive-${id}`, fact, category: "error", agent_id, source: "hive", created_at }));
}

function get(path: string): Promise<Told> {
  const socketPath = process.env.SKEP_API ?? "/skep/api.sock";
  return new Promise((done) => {
    const none = () => done({});
    const asked = request({ socketPath, path, headers: { Host: "skep", Accept: "application/json" }, agent: false, timeout: PATIENCE_MS }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece) => (text += piece));
      response.on("error", none);
      response.on("end", () => {
        try {
          done(response.statusCode === 200 ? JSON.parse(text) : {});
        } catch {
          none();
        }
      });
    });
    asked.on("error", none);
    asked.on("timeout", () => asked.destroy());
    asked.end();
  });
}

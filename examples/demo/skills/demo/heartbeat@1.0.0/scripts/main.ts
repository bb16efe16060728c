// The agent's main process: a heartbeat to the log and to heartbeat.json, until SIGTERM asks it to stop.

import { renameSync, writeFileSync } from "node:fs";

const FILE = "/workspace/heartbeat.json";
const seconds = Number(process.env.HEARTBEAT_SECONDS ?? "5");
if (!(seconds > 0)) {
  console.error(`HEARTBEAT_SECONDS must be a number above 0, it is "${process.env.HEARTBEAT_SECONDS}"`);
  process.exit(2);
}

let count = 0;

function beat(): void {
  count += 1;
  const at = new Date().toISOString();
  writeFileSync(`${FILE}.new`, JSON.stringify({ count, at, seconds }));
  renameSync(`${FILE}.new`, FILE);
  console.log(`${at} heartbeat ${count} of ${process.env.SKEP_AGENT ?? "unknown agent"}`);
}

beat();
const timer = setInterval(beat, seconds * 1000);

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => {
    clearInterval(timer);
    console.log(`${new Date().toISOString()} stopping on ${signal} after ${count} heartbeats`);
  });
}

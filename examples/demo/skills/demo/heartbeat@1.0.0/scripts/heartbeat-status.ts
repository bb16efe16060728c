#!/usr/bin/env node
// Tell when the agent's main process last gave a sign of life.

import { readFileSync } from "node:fs";

const FILE = "/workspace/heartbeat.json";

if (process.argv[2] === "--describe") {
  const description = "Tell when the agent's main process last gave a sign of life.";
  console.log(JSON.stringify({ name: "heartbeat-status", description, inputSchema: { type: "object", properties: {} } }));
} else {
  try {
    const { count, at, seconds } = JSON.parse(readFileSync(FILE, "utf8"));
    const age = (Date.now() - Date.parse(at)) / 1000;
    console.log(JSON.stringify({ success: true, result: { count, at, age_seconds: Math.round(age), alive: age < 2 * seconds + 1 } }));
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code === "ENOENT" ? "there was no heartbeat yet" : (error as Error).message;
    console.log(JSON.stringify({ success: false, error: `${FILE}: ${reason}` }));
    process.exitCode = 1;
  }
}

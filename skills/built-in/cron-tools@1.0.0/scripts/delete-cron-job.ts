#!/usr/bin/env node
// Delete a job of the agent; its history stays.

import { ask } from "./lib/hive.ts";
import { find, type Which } from "./lib/jobs.ts";
import { main } from "./lib/tool.ts";

async function deleteCronJob(args: Which): Promise<unknown> {
  const job = await find(args);
  await ask("DELETE", `/v1/jobs/${job.id}`);
  return { deleted: { id: job.id, name: job.name } };
}

await main(import.meta.url, (args: Which) => deleteCronJob(args));

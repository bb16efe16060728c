#!/usr/bin/env node
// Create a job of the agent that calls a tool, or wakes the agent with instructions, at its times.

import { ask } from "./lib/hive.ts";
import { type Job, oneTime, shown, type Spec } from "./lib/jobs.ts";
import { main, ToolError } from "./lib/tool.ts";

type Args = Spec & { name: string; enabled: boolean };

async function createCronJob(args: Args): Promise<unknown> {
  oneTime(args);
  if (args.schedule === undefined && args.every === undefined && args.at === undefined) {
    throw new ToolError('say when: "schedule" (cron), "every" (an interval) or "at" (once)');
  }
  const made = await ask<Job & { next_fires?: string[]; warnings?: string[] }>("POST", "/v1/jobs", args);
  return { job: shown(made), next_fires: made.next_fires ?? [], warnings: made.warnings ?? [] };
}

await main(import.meta.url, (args: Args) => createCronJob(args));

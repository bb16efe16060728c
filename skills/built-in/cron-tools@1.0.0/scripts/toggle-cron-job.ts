#!/usr/bin/env node
// Enable or disable a job of the agent; without a word which, the other than it is.

import { ask } from "./lib/hive.ts";
import { find, type Job, shown, type Which } from "./lib/jobs.ts";
import { main } from "./lib/tool.ts";

type Args = Which & { enabled?: boolean };

async function toggleCronJob({ id, name, enabled }: Args): Promise<unknown> {
  const job = await find({ id, name });
  const wanted = enabled ?? !job.enabled;
  if (wanted === job.enabled) return { job: shown(job), changed: false };
  const toggled = await ask<Job>("POST", `/v1/jobs/${job.id}/${wanted ? "resume" : "pause"}`);
  return { job: shown(toggled), changed: true };
}

await main(import.meta.url, (args: Args) => toggleCronJob(args));

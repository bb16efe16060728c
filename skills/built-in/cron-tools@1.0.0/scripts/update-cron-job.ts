#!/usr/bin/env node
// Change a job of the agent; what is left out stays as it is.

import { ask } from "./lib/hive.ts";
import { find, type Job, oneTime, shown, type Spec, type Which } from "./lib/jobs.ts";
import { main, ToolError } from "./lib/tool.ts";

type Args = Which & Spec & { new_name?: string };

async function updateCronJob(args: Args): Promise<unknown> {
  const { id, name, new_name, ...changes } = args;
  oneTime(changes);
  const body = { ...changes, ...(new_name === undefined ? {} : { name: new_name }) };
  if (Object.keys(body).length === 0) throw new ToolError("say what to change: nothing but the job is given");
  const job = await find({ id, name });
  const changed = await ask<Job & { next_fires?: string[]; warnings?: string[] }>("PATCH", `/v1/jobs/${job.id}`, body);
  return { job: shown(changed), next_fires: changed.next_fires ?? [], warnings: changed.warnings ?? [] };
}

await main(import.meta.url, (args: Args) => updateCronJob(args));

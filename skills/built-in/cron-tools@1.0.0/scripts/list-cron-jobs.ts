#!/usr/bin/env node
// List the agent's jobs: what they do, when they fire next, and how they last went.

import { jobs, shown } from "./lib/jobs.ts";
import { main } from "./lib/tool.ts";

type Args = { enabled?: boolean };

async function listCronJobs(args: Args): Promise<unknown> {
  const found = await jobs(args.enabled === undefined ? {} : { enabled: String(args.enabled) });
  return { jobs: found.map(shown) };
}

await main(import.meta.url, (args: Args) => listCronJobs(args));

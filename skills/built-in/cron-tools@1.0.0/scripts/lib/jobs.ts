// Jobs as the supervisor tells of them, and as these tools show and name them.

import { ask, list } from "./hive.ts";
import { ToolError } from "./tool.ts";

export type Job = {
  id: number;
  name: string;
  description: string;
  enabled: boolean;
  disabled_reason: string | null;
  trigger: Record<string, unknown>;
  tool: string | null;
  args: Record<string, unknown> | null;
  instructions: string | null;
  required_tools: string[];
  missing_tools: string[];
  next_fire_at: string | null;
  last_run: { at: string; status: string; summary: string | null } | null;
  consecutive_failures: number;
};

export type Which = { id?: number; name?: string };

/** What a job may be given; what is left out stays as it is, or is the default. */
export type Spec = {
  description?: string;
  schedule?: string;
  every?: string;
  at?: string;
  timezone?: string;
  tool?: string;
  args?: Record<string, unknown>;
  instructions?: string;
  required_tools?: string[];
  max_steps?: number;
  timeout?: string;
  retries?: number;
};

/** All jobs of the agent. */
export async function jobs(query: Record<string, string> = {}): Promise<Job[]> {
  return (await list<Job>("/v1/jobs", query, 10_000)).items;
}

/** The job that a number or a name means. */
export async function find({ id, name }: Which): Promise<Job> {
  if ((id === undefined) === (name === undefined)) throw new ToolError('say which job: its "id", or its "name"');
  if (id !== undefined) return await ask<Job>("GET", `/v1/jobs/${id}`);
  const found = await jobs({ name: name as string });
  if (found.length === 1) return found[0];
  const names = (await jobs()).map((job) => JSON.stringify(job.name));
  throw new ToolError(`you have no job named ${JSON.stringify(name)}; ${names.length === 0 ? "you have none" : `you have ${names.slice(0, 20).join(", ")}`}`);
}

/** At most one kind of time, in words that a model can correct itself by. */
export function oneTime(spec: Spec): void {
  const given = (["schedule", "every", "at"] as const).filter((key) => spec[key] !== undefined);
  if (given.length > 1) throw new ToolError(`give one of ${given.map((key) => `"${key}"`).join(", ")}, not several`);
}

/** What a model is shown of a job. */
export function shown(job: Job): Record<string, unknown> {
  const { id, name, description, enabled, disabled_reason, trigger, tool, args, instructions, required_tools, missing_tools, next_fire_at, last_run } = job;
  return { id, name, description, enabled, disabled_reason, trigger, tool, args, instructions, required_tools, missing_tools, next_fire_at, last_run };
}

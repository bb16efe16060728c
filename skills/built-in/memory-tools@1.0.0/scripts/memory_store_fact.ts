#!/usr/bin/env node
// Store a fact in the agent's memory.

import { store } from "./lib/memory.ts";
import { main } from "./lib/tool.ts";

await main(import.meta.url, (args: Record<string, unknown>) => store("fact", args));

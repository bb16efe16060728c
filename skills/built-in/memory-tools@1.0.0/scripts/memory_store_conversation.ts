#!/usr/bin/env node
// Store a conversation, or a summary of it, in the agent's memory.

import { store } from "./lib/memory.ts";
import { main } from "./lib/tool.ts";

await main(import.meta.url, (args: Record<string, unknown>) => store("conversation", args));

#!/usr/bin/env node
// Store a contact in the agent's memory, or change the one of this name.

import { store } from "./lib/memory.ts";
import { main } from "./lib/tool.ts";

await main(import.meta.url, (args: Record<string, unknown>) => store("contact", args));

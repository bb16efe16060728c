#!/usr/bin/env node
// List the conversations in the agent's memory, the last changed first.

import { list, type List } from "./lib/memory.ts";
import { main } from "./lib/tool.ts";

await main(import.meta.url, (args: List) => list("conversation", args));

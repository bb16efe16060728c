#!/usr/bin/env node
// Forget a fact by its id.

import { forget } from "./lib/memory.ts";
import { main } from "./lib/tool.ts";

await main(import.meta.url, (args: { id: number }) => forget("fact", args.id));

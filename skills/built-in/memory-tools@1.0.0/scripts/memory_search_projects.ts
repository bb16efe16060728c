#!/usr/bin/env node
// Search the projects in the agent's memory by words, the best match first.

import { search, type Search } from "./lib/memory.ts";
import { main } from "./lib/tool.ts";

await main(import.meta.url, (args: Search) => search("project", args));

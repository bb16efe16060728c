// Runs every case of cases.json. A case is: set up the workspace with `setup` (bash), call `tool` with
// `args`, expect an `error` that contains the text, or success, and what `result` names; `after` (bash) holds.

import assert from "node:assert/strict";
import { test } from "node:test";
import cases from "./cases.json" with { type: "json" };
import { assertHas, inWorkspace, invoke, shell } from "./support.ts";

type Case = { name: string; tool: string; setup?: string; args: unknown; result?: unknown; error?: string; after?: string };

for (const { name, tool, setup, args, result, error, after } of cases as Case[]) {
  test(`${tool}: ${name}`, () =>
    inWorkspace(async (roots) => {
      if (setup !== undefined) shell(setup, roots.workspace);
      const outcome = await invoke(tool, args, roots);
      if (error === undefined) {
        assert.ok(outcome.success, `failed: ${JSON.stringify(outcome)}`);
      } else {
        assert.ok(!outcome.success, `succeeded: ${JSON.stringify(outcome)}`);
        assert.ok(outcome.error.includes(error), `the error is: ${outcome.error}`);
      }
      if (result !== undefined) assertHas(outcome.result, result);
      if (after !== undefined) shell(after, roots.workspace);
    }));
}

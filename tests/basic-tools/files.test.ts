// What the file tools do beyond a single case: races, sizes, and the skills folder.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { inWorkspace, invoke, shell } from "./support.ts";

test("a skill's files can be read and listed through its versioned link, and not written", () =>
  inWorkspace(async (roots) => {
    const skills = roots.readOnly[0];
    mkdirSync(join(skills, ".v/a@1.0.0"), { recursive: true });
    writeFileSync(join(skills, ".v/a@1.0.0/manifest.json"), "{}");
    symlinkSync(".v/a@1.0.0", join(skills, "a"));
    const read = await invoke("read-file", { path: join(skills, "a/manifest.json") }, roots);
    assert.ok(read.success && (read.result as { content: string }).content === "{}", JSON.stringify(read));
    const list = await invoke("list-directory", { path: join(skills, "a") }, roots);
    assert.ok(list.success && (list.result as { entries: unknown[] }).entries.length === 1, JSON.stringify(list));
    const write = await invoke("write-file", { path: join(skills, "a/manifest.json"), content: "[]" }, roots);
    assert.ok(!write.success && write.error.includes("outside the workspace"), JSON.stringify(write));
    assert.equal(readFileSync(join(skills, "a/manifest.json"), "utf8"), "{}");
  }));

test("a file larger than the default limit is cut at 1 MiB and says so", () =>
  inWorkspace(async (roots) => {
    shell("head -c 3000000 /dev/zero | tr '\\0' x > big", roots.workspace);
    const outcome = await invoke("read-file", { path: "big" }, roots);
    assert.ok(outcome.success);
    const { content, ...rest } = outcome.result as { content: string };
    assert.equal(content.length, 1024 * 1024);
    assert.deepEqual(rest, { path: "big", encoding: "utf8", size: 3000000, offset: 0, bytes: 1048576, truncated: true, next_offset: 1048576 });
  }));

test("a sparse file of 1 TiB costs no more memory than the limit", () =>
  inWorkspace(async (roots) => {
    shell(": > huge", roots.workspace);
    truncateSync(join(roots.workspace, "huge"), 2 ** 40);
    const outcome = await invoke("read-file", { path: "huge", limit: 4, encoding: "base64" }, roots);
    assert.ok(outcome.success && (outcome.result as { content: string }).content === "AAAAAA==");
  }));

test("more than 10 MiB are not written at once", () =>
  inWorkspace(async (roots) => {
    const outcome = await invoke("write-file", { path: "a", content: "x".repeat(10 * 1024 * 1024 + 1) }, roots);
    assert.ok(!outcome.success && outcome.error.includes('the rest with "append": true'));
    assert.equal(shell("ls -A", roots.workspace), "");
  }));

test("a directory swapped against a link all the time never leads out", () =>
  inWorkspace(async (roots) => {
    const outside = join(dirname(roots.workspace), "outside");
    shell(`mkdir ${outside} d; printf secret > ${outside}/f; printf fine > d/f; ln -s ${outside} l`, roots.workspace);
    const swap = "const fs = require('fs'); for (;;) { fs.renameSync('d', 'x'); fs.renameSync('l', 'd'); fs.renameSync('d', 'l'); fs.renameSync('x', 'd'); }";
    const swapper = spawn(process.execPath, ["-e", swap], { cwd: roots.workspace, stdio: "ignore" });
    try {
      const seen = { fine: 0, refused: 0 };
      const started = Date.now();
      const elapsed = () => Date.now() - started;
      // On a busy machine the swapper starts late: go on until both sides of the race were seen.
      while (elapsed() < 1500 || (elapsed() < 15000 && (seen.fine === 0 || seen.refused === 0))) {
        const read = await invoke("read-file", { path: "d/f" }, roots);
        if (read.success) assert.equal((read.result as { content: string }).content, "fine");
        seen[read.success ? "fine" : "refused"]++;
        await invoke("write-file", { path: "d/new", content: "x" }, roots);
        await invoke("write-file", { path: "d/sub/new", content: "x" }, roots);
        const list = await invoke("list-directory", { recursive: true }, roots);
        if (list.success) for (const { path } of (list.result as { entries: { path: string }[] }).entries) assert.doesNotMatch(path, /outside/);
      }
      assert.ok(seen.fine > 0 && seen.refused > 0, `the race was not provoked: ${JSON.stringify(seen)}`);
      assert.deepEqual(shell(`ls -A ${outside}`, roots.workspace), "f\n");
    } finally {
      swapper.kill("SIGKILL");
      await new Promise((done) => swapper.once("exit", done));
    }
  }));

test("a deep tree is listed down to a bound and marked as cut", () =>
  inWorkspace(async (roots) => {
    shell(`mkdir -p ${"d/".repeat(100)}`, roots.workspace);
    const outcome = await invoke("list-directory", { recursive: true }, roots);
    assert.ok(outcome.success);
    const listing = outcome.result as { entries: unknown[]; truncated: boolean };
    assert.equal(listing.entries.length, 64);
    assert.equal(listing.truncated, true);
  }));

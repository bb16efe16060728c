// What run-command does to processes: nothing of a command survives its end, its timeout or a stop.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { inWorkspace, invoke } from "./support.ts";

function alive(pid: number): boolean {
  // A killed orphan may stay a zombie where PID 1 does not reap.
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

async function assertDead(file: string): Promise<void> {
  const pid = Number(readFileSync(file, "utf8"));
  for (let round = 0; round < 40 && alive(pid); round++) await sleep(25);
  assert.ok(!alive(pid), `process ${pid} is still alive`);
}

test("a timeout ends the children of the command as well", () =>
  inWorkspace(async (roots) => {
    const outcome = await invoke("run-command", { command: "sleep 60 & echo $! > pid; wait", timeout_ms: 400 }, roots);
    assert.ok(!outcome.success);
    await assertDead(join(roots.workspace, "pid"));
  }));

test("a command that ignores SIGTERM is killed after two seconds", () =>
  inWorkspace(async (roots) => {
    const command = "trap '' TERM; echo $$ > pid; echo begun; while true; do sleep 0.1; done";
    const outcome = await invoke("run-command", { command, timeout_ms: 300 }, roots);
    assert.ok(!outcome.success);
    const result = outcome.result as { signal: string; stdout: string; duration_ms: number };
    assert.equal(result.signal, "SIGKILL");
    assert.equal(result.stdout, "begun\n");
    assert.ok(result.duration_ms >= 2200 && result.duration_ms < 4500, `took ${result.duration_ms} ms`);
    await assertDead(join(roots.workspace, "pid"));
  }));

test("a command that cleans up on SIGTERM has time for it", () =>
  inWorkspace(async (roots) => {
    const command = "trap 'echo cleaned > out; exit 3' TERM; echo begun; while true; do sleep 0.05; done";
    const outcome = await invoke("run-command", { command, timeout_ms: 300 }, roots);
    assert.ok(!outcome.success && (outcome.result as { exit_code: number }).exit_code === 3);
    assert.ok(existsSync(join(roots.workspace, "out")));
  }));

test("a process left in the background is ended with the command", () =>
  inWorkspace(async (roots) => {
    const outcome = await invoke("run-command", { command: "sleep 60 >/dev/null 2>&1 & echo $! > pid" }, roots);
    assert.ok(outcome.success);
    await assertDead(join(roots.workspace, "pid"));
  }));

test("endless output neither blocks nor fills memory", () =>
  inWorkspace(async (roots) => {
    const outcome = await invoke("run-command", { command: "head -c 200000000 /dev/zero; head -c 200000000 /dev/zero >&2" }, roots);
    assert.ok(outcome.success);
    const result = outcome.result as { stdout: string; stderr: string; truncated: boolean };
    assert.deepEqual([result.stdout.length, result.stderr.length, result.truncated], [262144, 262144, true]);
  }));

test("a command too long for the kernel is refused in words", () =>
  inWorkspace(async (roots) => {
    const outcome = await invoke("run-command", { command: `: ${"x".repeat(200_000)}` }, roots);
    assert.ok(!outcome.success && outcome.error.includes('pass large input by "stdin" or a file'), JSON.stringify(outcome).slice(0, 300));
  }));

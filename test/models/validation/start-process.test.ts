/** How a start that does not come to its end is told. */
import path from 'node:path';
import { expect, test } from 'vitest';
import type { StartPlan } from '../../../src/core/evidence/validation-ipc.ts';
import { StartProcess } from '../../../src/models/validation/start-process.ts';

const SCRIPT = path.join(import.meta.dirname, '../../fixtures/workers/ending-start.mjs');
const PLAN: StartPlan = {
  model: { id: 'fake', path: 'none' },
  mode: 'offline',
  stateful: false,
  slots: 2,
  threads: 1,
  batch: 1,
  items: [{ path: 'none', startSample: 0, endSample: 1 }],
  coldGroups: [[0]],
  cold: [0, 0],
  warm: [[[0]]],
  again: [],
};

function starts(end: string, silenceMs = 60_000): StartProcess {
  return new StartProcess({ script: SCRIPT, args: [end], silenceMs });
}

const ENDS: readonly [string, string, string][] = [
  ['killed', 'BLOCKED', 'the worker was killed, as for want of memory (SIGKILL)'],
  ['memory', 'BLOCKED', 'INSUFFICIENT_MEMORY: no room'],
  ['slots', 'UNSUPPORTED', 'SLOTS_UNSUPPORTED: one at most'],
  ['exit', 'FAIL', 'the worker crashed (exit code 7)'],
  ['load', 'FAIL', 'MODEL_LOAD_FAILED: no'],
];

test.each(ENDS)('%s is %s, with the phase', async (end, status, reason) => {
  expect(await starts(end).start(PLAN)).toMatchObject({
    kind: 'broken',
    phase: 'warm',
    wave: 4,
    status,
    reason,
  });
});

test('a start that says nothing any more is ended as hung', async () => {
  expect(await starts('silent', 1_000).start(PLAN)).toMatchObject({
    status: 'FAIL',
    reason: 'the worker hung',
  });
});

test('a start that is aborted ends its process and is no result', async () => {
  const controller = new AbortController();
  const running = starts('silent').start(PLAN, {
    signal: controller.signal,
    onPhase: () => controller.abort(),
  });
  await expect(running).rejects.toMatchObject({ code: 'CANCELLED' });
});

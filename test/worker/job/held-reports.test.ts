import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { JobClocks } from '../../../src/core/job/job.ts';
import type { WorkerMessage } from '../../../src/core/worker/ipc.ts';
import { HeldJobs } from '../../../src/worker/job/held-jobs.ts';
import { Outbox } from '../../../src/worker/job/outbox.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const CLOCKS = JobClocks.parse({ timeoutMs: 0 });
const HELD = { type: 'held', queue: 'q', jobId: 'job', token: 'token' };
const STARTED = { type: 'started', queue: 'q', jobId: 'job' };
const RELEASED = { type: 'released', queue: 'q', jobId: 'job' };

function heldJobs() {
  const told: WorkerMessage[] = [];
  const outbox = new Outbox<WorkerMessage>((messages) => told.push(...messages));
  return {
    held: new HeldJobs(outbox.post),
    told,
    /** As the event loop's: what was asked for in this turn goes out, no time passes. */
    nextTurn: () => vi.advanceTimersByTime(0),
    aWhile: () => vi.advanceTimersByTime(200),
    outbox,
  };
}

test('the supervisor hears of a job that works in the same turn, and of its end a little later', () => {
  const { held, told, nextTurn, aWhile } = heldJobs();
  held.hold('q', 'job', 'token', CLOCKS);
  held.start('q', 'job');
  nextTurn();
  expect(told).toEqual([HELD, STARTED]);
  held.settle('q', 'job');
  held.release('q', 'job');
  nextTurn();
  expect(told).toEqual([HELD, STARTED]);
  aWhile();
  expect(told).toEqual([HELD, STARTED, RELEASED]);
});

test('a job that waits to start is told of a little later, and at once when it starts', () => {
  const { held, told, nextTurn, aWhile } = heldJobs();
  held.hold('q', 'job', 'token', CLOCKS);
  nextTurn();
  expect(told).toEqual([]);
  aWhile();
  expect(told).toEqual([HELD]);
  held.start('q', 'job');
  nextTurn();
  expect(told).toEqual([HELD, STARTED]);
});

test('a job that has ended before a message goes out costs none', () => {
  const { held, told, aWhile } = heldJobs();
  held.hold('q', 'job', 'token', CLOCKS);
  held.start('q', 'job');
  held.settle('q', 'job');
  held.release('q', 'job');
  aWhile();
  expect(told).toEqual([]);
});

test('a job whose work is done by then is told of as held, so that no crash is charged to it', () => {
  const { held, told, aWhile } = heldJobs();
  held.hold('q', 'job', 'token', CLOCKS);
  held.start('q', 'job');
  held.settle('q', 'job');
  aWhile();
  expect(told).toEqual([HELD]);
  held.release('q', 'job');
  aWhile();
  expect(told).toEqual([HELD, RELEASED]);
});

test('what was held back goes out before the news of a job that works', () => {
  const { held, told, nextTurn } = heldJobs();
  held.hold('q', 'job', 'token', CLOCKS);
  held.hold('r', 'other', 'token', CLOCKS);
  held.start('r', 'other');
  nextTurn();
  expect(told).toEqual([
    HELD,
    { type: 'held', queue: 'r', jobId: 'other', token: 'token' },
    { type: 'started', queue: 'r', jobId: 'other' },
  ]);
});

test('a job that is taken once more is held under its new lock', () => {
  const { held, told, nextTurn, aWhile } = heldJobs();
  held.hold('q', 'job', 'token', CLOCKS);
  held.start('q', 'job');
  nextTurn();
  held.release('q', 'job');
  held.hold('q', 'job', 'another', CLOCKS);
  aWhile();
  expect(told).toEqual([HELD, STARTED, RELEASED, { ...HELD, token: 'another' }]);
});

test('a worker that is about to end leaves nothing untold', () => {
  const { held, told, nextTurn, outbox } = heldJobs();
  held.hold('q', 'job', 'token', CLOCKS);
  held.start('q', 'job');
  nextTurn();
  held.release('q', 'job');
  held.flush();
  outbox.flush();
  expect(told).toEqual([HELD, STARTED, RELEASED]);
});

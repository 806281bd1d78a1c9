import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { JobClocks } from '../../../src/core/job/job.ts';
import type { WorkerMessage } from '../../../src/core/worker/ipc.ts';
import { HeldJobs } from '../../../src/worker/job/held-jobs.ts';
import { compileProgram } from '../../support/compile.ts';

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => void vi.useRealTimers());

function heldJobs() {
  const told: WorkerMessage[] = [];
  return { held: new HeldJobs((message) => void told.push(message)), told };
}

const CLOCKS = JobClocks.parse({ timeoutMs: 0 });

describe('HeldJobs', () => {
  test('a job that runs for longer than its timeout, counted from its start, ends with JOB_TIMEOUT', () => {
    const { held } = heldJobs();
    const signal = held.hold('q', 'job', 't', { ...CLOCKS, timeoutMs: 500 });
    vi.advanceTimersByTime(1_000);
    held.start('q', 'job');
    vi.advanceTimersByTime(499);
    expect(signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(signal.reason).toMatchObject({ code: 'JOB_TIMEOUT' });
  });

  test('a deadline ends a job with DEADLINE_EXCEEDED, one in the past at once', () => {
    const { held } = heldJobs();
    const later = held.hold('q', 'later', 't', { ...CLOCKS, deadlineAt: 1_000_200 });
    const past = held.hold('q', 'past', 't', { ...CLOCKS, deadlineAt: 5 });
    expect(past.reason).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    vi.advanceTimersByTime(199);
    expect(later.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(later.reason).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
  });

  test('the clocks of a settled job have stopped', () => {
    const { held } = heldJobs();
    const signal = held.hold('q', 'job', 't', { ...CLOCKS, timeoutMs: 500 });
    held.start('q', 'job');
    held.settle('q', 'job');
    vi.advanceTimersByTime(1_000);
    expect(signal.aborted).toBe(false);
    expect(held.size).toBe(0);
  });

  test('aborts by queue and id only, and says when it does not hold the job', () => {
    const { held } = heldJobs();
    const mine = held.hold('q', 'job', 't', CLOCKS);
    const other = held.hold('r', 'job', 't', CLOCKS);
    expect(held.abort('q', 'job', new Error('enough'))).toBe(true);
    expect(mine.reason).toMatchObject({ message: 'enough' });
    expect(other.aborted).toBe(false);
    expect(held.abort('q', 'unknown', new Error('enough'))).toBe(false);
  });

  test('ends jobs that come after all were ended, too', () => {
    const { held } = heldJobs();
    held.abortAll(new Error('the end'));
    expect(held.hold('q', 'late', 't', CLOCKS).reason).toMatchObject({ message: 'the end' });
  });

  test('the supervisor has been told of each step of a job when the step begins', () => {
    const { held, told } = heldJobs();
    held.taking('q', 'taker');
    held.hold('q', 'job', 'taker:1', CLOCKS);
    expect(told.splice(0)).toEqual([
      { type: 'taking', queue: 'q', workerId: 'taker' },
      { type: 'held', queue: 'q', jobId: 'job', token: 'taker:1' },
    ]);
    held.start('q', 'job');
    expect(told.splice(0)).toEqual([{ type: 'started', queue: 'q', jobId: 'job' }]);
    held.settle('q', 'job');
    expect(told).toEqual([]);
    held.release('q', 'job');
    expect(told).toEqual([{ type: 'released', queue: 'q', jobId: 'job' }]);
  });

  test('a job that is taken once more is held under its new lock', () => {
    const { held, told } = heldJobs();
    held.hold('q', 'job', 'taker:1', CLOCKS);
    held.release('q', 'job');
    held.hold('q', 'job', 'taker:2', CLOCKS);
    expect(told.at(-1)).toEqual({ type: 'held', queue: 'q', jobId: 'job', token: 'taker:2' });
  });
});

describe('a process that holds jobs', () => {
  beforeEach(() => void vi.useRealTimers());

  async function runToItsEnd(mode: 'abort' | 'idle') {
    await using program = await compileProgram(
      path.join(import.meta.dirname, 'held-jobs-program.ts'),
    );
    const child = fork(program.path, [mode], { stdio: 'ignore' });
    const told: unknown[] = [];
    child.on('message', (message) => told.push(message));
    const [code, signal] = await once(child, 'exit', { signal: AbortSignal.timeout(20_000) });
    return { told, code, signal };
  }

  test('has told of a job when native code takes the process down in the turn of its start', async () => {
    const { told, signal } = await runToItsEnd('abort');
    expect(signal).toBe('SIGABRT');
    expect(told).toEqual([
      { type: 'taking', queue: 'q', workerId: 'taker' },
      { type: 'held', queue: 'q', jobId: 'waits', token: 'taker:1' },
      { type: 'held', queue: 'q', jobId: 'runs', token: 'taker:2' },
      { type: 'started', queue: 'q', jobId: 'runs' },
    ]);
  });

  test('ends by itself: the clocks of its jobs do not keep it alive', async () => {
    expect(await runToItsEnd('idle')).toMatchObject({ code: 0, signal: null });
  });
});

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { JobClocks } from '../../../src/core/job/job.ts';
import { HeldJobs } from '../../../src/worker/job/held-jobs.ts';

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => void vi.useRealTimers());

function heldJobs() {
  return { held: new HeldJobs(() => undefined) };
}

const CLOCKS = JobClocks.parse({ timeoutMs: 0 });

describe('HeldJobs', () => {
  test('a job that runs for longer than its timeout, counted from its start, ends with JOB_TIMEOUT', () => {
    const { held } = heldJobs();
    const signal = held.hold('q', 'job', 't', { ...CLOCKS, timeoutMs: 500 }).signal;
    vi.advanceTimersByTime(1_000);
    held.start('q', 'job');
    vi.advanceTimersByTime(499);
    expect(signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(signal.reason).toMatchObject({ code: 'JOB_TIMEOUT' });
  });

  test('a deadline ends a job with DEADLINE_EXCEEDED, one in the past at once', () => {
    const { held } = heldJobs();
    const later = held.hold('q', 'later', 't', { ...CLOCKS, deadlineAt: 1_000_200 }).signal;
    const past = held.hold('q', 'past', 't', { ...CLOCKS, deadlineAt: 5 }).signal;
    expect(past.reason).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    vi.advanceTimersByTime(199);
    expect(later.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(later.reason).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
  });

  test('the clocks of a settled job have stopped', () => {
    const { held } = heldJobs();
    const signal = held.hold('q', 'job', 't', { ...CLOCKS, timeoutMs: 500 }).signal;
    held.start('q', 'job');
    held.settle('q', 'job');
    vi.advanceTimersByTime(1_000);
    expect(signal.aborted).toBe(false);
    expect(held.size).toBe(0);
  });

  test('aborts by queue and id only, and says when it does not hold the job', () => {
    const { held } = heldJobs();
    const mine = held.hold('q', 'job', 't', CLOCKS).signal;
    const other = held.hold('r', 'job', 't', CLOCKS).signal;
    expect(held.abort('q', 'job', new Error('enough'))).toBe(true);
    expect(mine.reason).toMatchObject({ message: 'enough' });
    expect(other.aborted).toBe(false);
    expect(held.abort('q', 'unknown', new Error('enough'))).toBe(false);
  });

  test('ends jobs that come after all were ended, too', () => {
    const { held } = heldJobs();
    held.abortAll(new Error('the end'));
    expect(held.hold('q', 'late', 't', CLOCKS).signal.reason).toMatchObject({ message: 'the end' });
  });
});

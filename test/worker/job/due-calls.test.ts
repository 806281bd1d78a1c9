import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DueCalls } from '../../../src/worker/job/due-calls.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('each call is made once and in its time, in whatever order they were asked for', () => {
  const calls = new DueCalls();
  const made: number[] = [];
  for (const ms of [300, 100, 200, 100]) calls.after(ms, () => made.push(ms));
  vi.advanceTimersByTime(99);
  expect(made).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(made).toEqual([100, 100]);
  vi.advanceTimersByTime(1_000);
  expect(made).toEqual([100, 100, 200, 300]);
});

test('a call that is taken back is not made, and those behind it are', () => {
  const calls = new DueCalls();
  const made: string[] = [];
  const first = calls.after(100, () => made.push('first'));
  calls.after(200, () => made.push('second'));
  first.cancel();
  first.cancel();
  vi.advanceTimersByTime(200);
  expect(made).toEqual(['second']);
});

test('a call may take back another that is due with it, and ask for more', () => {
  const calls = new DueCalls();
  const made: string[] = [];
  calls.after(100, () => {
    made.push('first');
    second.cancel();
    calls.after(10, () => made.push('third'));
  });
  const second = calls.after(100, () => made.push('second'));
  vi.advanceTimersByTime(110);
  expect(made).toEqual(['first', 'third']);
});

test('longer than a timer of the system can wait is waited for all the same', () => {
  const calls = new DueCalls();
  const made: number[] = [];
  const days = 30 * 86_400_000;
  calls.after(days, () => made.push(days));
  vi.advanceTimersByTime(days - 1);
  expect(made).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(made).toEqual([days]);
});

test('with nothing to call there is no timer', () => {
  const calls = new DueCalls();
  calls.after(100, () => undefined).cancel();
  vi.advanceTimersByTime(100);
  expect(vi.getTimerCount()).toBe(0);
});

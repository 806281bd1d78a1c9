import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startLongTimer } from '../../../src/worker/job/long-timer.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a timer fires once and in its time', () => {
  const fired: number[] = [];
  for (const ms of [300, 100, 200, 100]) startLongTimer(ms, () => fired.push(ms));
  vi.advanceTimersByTime(99);
  expect(fired).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(fired).toEqual([100, 100]);
  vi.advanceTimersByTime(1_000);
  expect(fired).toEqual([100, 100, 200, 300]);
});

test('longer than a timer of the system can wait is waited for all the same', () => {
  const fired: number[] = [];
  const days = 30 * 86_400_000;
  startLongTimer(days, () => fired.push(days));
  vi.advanceTimersByTime(days - 1);
  expect(fired).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(fired).toEqual([days]);
  vi.advanceTimersByTime(2 * days);
  expect(fired).toEqual([days]);
});

test('a cancelled timer does not fire, however long it had waited, and leaves no timer behind', () => {
  const act = vi.fn();
  const short = startLongTimer(100, act);
  const long = startLongTimer(30 * 86_400_000, act);
  vi.advanceTimersByTime(99);
  short.cancel();
  short.cancel();
  vi.advanceTimersByTime(25 * 86_400_000);
  long.cancel();
  expect(vi.getTimerCount()).toBe(0);
  vi.advanceTimersByTime(30 * 86_400_000);
  expect(act).not.toHaveBeenCalled();
});

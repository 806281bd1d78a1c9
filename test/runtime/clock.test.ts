import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/runtime/clock.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const DAY_MS = 24 * 60 * 60 * 1_000;

test('a timer longer than setTimeout can count fires at its time, not at once', () => {
  const fired = vi.fn();
  const start = systemClock.now();
  systemClock.setTimer(60 * DAY_MS, fired);
  vi.advanceTimersByTime(60 * DAY_MS - 1);
  expect(fired).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(fired).toHaveBeenCalledOnce();
  expect(systemClock.now() - start).toBe(60 * DAY_MS);
});

test('a cancelled timer never fires, however many steps it has taken', () => {
  const fired = vi.fn();
  const timer = systemClock.setTimer(60 * DAY_MS, fired);
  vi.advanceTimersByTime(30 * DAY_MS);
  timer.cancel();
  timer.cancel();
  vi.advanceTimersByTime(60 * DAY_MS);
  expect(fired).not.toHaveBeenCalled();
  expect(vi.getTimerCount()).toBe(0);
});

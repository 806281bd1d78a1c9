import { expect, test } from 'vitest';
import { effectiveBusyTimeoutMs, isOverdue } from '../../src/runtime/waiting.ts';

test.each([
  ['none means the ceiling', 900, undefined, 900],
  ['a shorter one is honoured', 900, 60, 60],
  ['a longer one is clamped', 900, 1_000, 900],
  ['an equal one stays', 900, 900, 900],
  ['0 under a ceiling means the ceiling', 900_000, 0, 900_000],
  ['a ceiling of 0 honours the request', 0, 60_000, 60_000],
  ['0 and 0 is unbounded', 0, 0, 0],
  ['none under a ceiling of 0 is unbounded', 0, undefined, 0],
])('S19 busy timeout: %s', (_, ceilingMs, requestMs, expected) => {
  expect(effectiveBusyTimeoutMs(ceilingMs, requestMs)).toBe(expected);
});

test.each([
  [-1, 5],
  [5, -1],
  [Number.NaN, 5],
  [5, Number.POSITIVE_INFINITY],
])('a busy timeout of %s under a request of %s is refused', (ceilingMs, requestMs) => {
  expect(() => effectiveBusyTimeoutMs(ceilingMs, requestMs)).toThrow(
    expect.objectContaining({ code: 'INVALID_REQUEST' }),
  );
});

test.each([
  ['idle is never overdue', undefined, 20, 1_000, false],
  ['inside the bound is not', 100, 20, 119, false],
  ['exactly the bound is not', 100, 20, 120, false],
  ['one millisecond more is', 100, 20, 121, true],
  ['a holder since time 0 counts', 0, 20, 21, true],
  ['a bound of 0 never is', 100, 0, 10_000, false],
  ['a negative bound never is', 100, -5, 10_000, false],
])('S20 overdue: %s', (_, sinceMs, timeoutMs, nowMs, expected) => {
  expect(isOverdue(sinceMs, timeoutMs, nowMs)).toBe(expected);
});

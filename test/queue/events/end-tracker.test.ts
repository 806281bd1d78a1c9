import { expect, test } from 'vitest';
import { EndTracker } from '../../../src/queue/events/end-tracker.ts';
import type { JobEndsSnapshot } from '../../../src/queue/events/job-ends.ts';
import { failedEnd, type JobEnd } from '../../../src/queue/jobs/job-view.ts';

const first = failedEnd('INPUT_EMPTY: first');
const second = failedEnd('INPUT_EMPTY: second');

interface Reading {
  readonly ids: readonly string[];
  answer(lastEventId: string, ends?: Record<string, JobEnd>): void;
  fail(error: Error): void;
}

/** A tracker whose readings of the state are answered by the test. */
function setUp() {
  const told: [string, JobEnd][] = [];
  const readings: Reading[] = [];
  const arrivals: ((reading: Reading) => void)[] = [];
  const tracker = new EndTracker({
    tell: (id, end) => told.push([id, end]),
    read: (ids) =>
      new Promise<JobEndsSnapshot>((resolve, reject) => {
        const reading: Reading = {
          ids,
          answer: (lastEventId, ends = {}) =>
            resolve({ lastEventId, ends: new Map(Object.entries(ends)) }),
          fail: reject,
        };
        const arrival = arrivals.shift();
        if (arrival) arrival(reading);
        else readings.push(reading);
      }),
  });
  const nextReading = (): Promise<Reading> =>
    new Promise((resolve) => {
      const reading = readings.shift();
      if (reading) resolve(reading);
      else arrivals.push(resolve);
    });
  return { tracker, told, nextReading };
}

test('an end that the state shows is told, and its event, arriving late, is not', async () => {
  const { tracker, told, nextReading } = setUp();
  const watching = tracker.watch(['a']);
  (await nextReading()).answer('5-0', { a: first });
  await watching;
  tracker.hear('a', '5-0', first);
  expect(told).toEqual([['a', first]]);
});

test('an end that happens while the state is read is told once, from whichever knows it', async () => {
  const { tracker, told, nextReading } = setUp();
  const watching = tracker.watch(['a', 'b']);
  const reading = await nextReading();
  tracker.hear('a', '5-0', first);
  tracker.hear('b', '7-0', second);
  reading.answer('5-0', { a: first });
  await watching;
  expect(told).toEqual([
    ['a', first],
    ['b', second],
  ]);
});

test('the end before a retry, still in the stream, is not taken for the end after it', async () => {
  const { tracker, told, nextReading } = setUp();
  const watching = tracker.watch(['a']);
  const ended = tracker.waitForEnd('a');
  const reading = await nextReading();
  // Retried by now: it failed at 5, and waits again at 6.
  tracker.hear('a', '5-0', first);
  reading.answer('6-0');
  (await nextReading()).answer('6-0');
  await watching;
  expect(told).toEqual([]);
  tracker.hear('a', '8-1', second);
  expect(await ended).toBe(second);
  expect(told).toEqual([['a', second]]);
});

test('waiting for one job does not hide its end from those who listen to all', async () => {
  const { tracker, told, nextReading } = setUp();
  const ended = tracker.waitForEnd('a');
  (await nextReading()).answer('5-0', { a: first });
  expect(await ended).toBe(first);
  expect(told).toEqual([]);
  tracker.hear('a', '5-0', first);
  expect(told).toEqual([['a', first]]);
});

test('what is asked for during a reading is read together after it', async () => {
  const { tracker, nextReading } = setUp();
  const waits = [tracker.waitForEnd('a')];
  const reading = await nextReading();
  waits.push(tracker.waitForEnd('b'), tracker.waitForEnd('c'));
  reading.answer('1-0', { a: first });
  const next = await nextReading();
  expect(next.ids).toEqual(['b', 'c']);
  next.answer('1-0', { b: first, c: second });
  expect(await Promise.all(waits)).toEqual([first, first, second]);
});

test('a reading that fails rejects those who wait for it, and loses no event', async () => {
  const { tracker, told, nextReading } = setUp();
  const waiting = expect(tracker.waitForEnd('a')).rejects.toThrow('Redis is gone');
  const reading = await nextReading();
  tracker.hear('a', '5-0', first);
  reading.fail(new Error('Redis is gone'));
  await waiting;
  expect(told).toEqual([['a', first]]);
});

test('a wait that was given up is forgotten', async () => {
  const { tracker, nextReading } = setUp();
  const controller = new AbortController();
  const reason = new Error('enough');
  const waiting = expect(tracker.waitForEnd('a', controller.signal)).rejects.toBe(reason);
  (await nextReading()).answer('1-0');
  controller.abort(reason);
  await waiting;
  const looked = tracker.lookAgain();
  tracker.hear('a', '2-0', first);
  await looked;
});

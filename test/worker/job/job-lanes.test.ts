import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { JobLanes, type Lane } from '../../../src/worker/job/job-lanes.ts';

const LONG_MS = 10_000;
const PLACES = 4;

class RecordedLane implements Lane {
  concurrency: number;
  running = false;
  closed = false;

  constructor(places: number) {
    this.concurrency = places;
  }
  ready(): Promise<void> {
    return Promise.resolve();
  }
  run(): Promise<void> {
    this.running = true;
    return Promise.resolve();
  }
  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}

function open() {
  const all: RecordedLane[] = [];
  const lanes = new JobLanes({
    open: (places) => {
      const lane = new RecordedLane(places);
      all.push(lane);
      return lane;
    },
    places: PLACES,
    longAfterMs: LONG_MS,
    onError: () => undefined,
  });
  lanes.start();
  const taking = () => all.filter(({ running, closed }) => running && !closed).length;
  const enter = (jobs: number) => Array.from({ length: jobs }, () => lanes.enter());
  return { lanes, all, taking, enter };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('a lane whose jobs have all become long ones gets another beside it, at most two', () => {
  const { taking, enter } = open();
  enter(PLACES - 1);
  vi.advanceTimersByTime(LONG_MS);
  expect(taking()).toBe(1);
  for (const expected of [2, 3, 3]) {
    enter(PLACES);
    vi.advanceTimersByTime(LONG_MS);
    expect(taking()).toBe(expected);
  }
});

test('jobs that end before they are long open nothing, and lanes close with the long jobs', () => {
  const { taking, enter } = open();
  for (const leave of enter(3 * PLACES)) leave();
  vi.advanceTimersByTime(LONG_MS);
  expect(taking()).toBe(1);
  const leaves = enter(PLACES);
  vi.advanceTimersByTime(LONG_MS);
  expect(taking()).toBe(2);
  leaves[0]?.();
  expect(taking()).toBe(1);
});

test('closing closes every lane, and none is opened after that', async () => {
  const { lanes, all, taking, enter } = open();
  enter(PLACES);
  vi.advanceTimersByTime(LONG_MS);
  enter(PLACES);
  await lanes.close();
  expect(taking()).toBe(0);
  vi.advanceTimersByTime(LONG_MS);
  expect(all).toHaveLength(2);
});

test('other places are those of every lane', () => {
  const { lanes, all, enter } = open();
  enter(PLACES);
  vi.advanceTimersByTime(LONG_MS);
  lanes.places = 2;
  expect(all.map(({ concurrency }) => concurrency)).toEqual([2, 2, 2]);
});

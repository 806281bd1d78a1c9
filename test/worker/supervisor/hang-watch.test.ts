import { expect, test } from 'vitest';
import { HangWatch } from '../../../src/worker/supervisor/hang-watch.ts';

test('a worker that says nothing for the limit hangs; each word of it starts the count anew', () => {
  const watch = new HangWatch(3);
  watch.alive(null);
  expect([watch.tick(), watch.tick(), watch.tick()]).toEqual([undefined, undefined, undefined]);
  watch.alive(null);
  expect([watch.tick(), watch.tick(), watch.tick()]).toEqual([undefined, undefined, undefined]);
  expect(watch.tick()).toBe('silent');
});

test('a batch that is still the oldest at the limit hangs; another one in its place starts anew', () => {
  const watch = new HangWatch(2);
  const tick = (oldestRun: number | null) => {
    watch.alive(oldestRun);
    return watch.tick();
  };
  expect([tick(1), tick(2), tick(null), tick(3)]).toEqual(Array(4).fill(undefined));
  expect(tick(3)).toBe('native');
});

test('a worker that has not said anything yet gets longer', () => {
  const watch = new HangWatch(3);
  expect(Array.from({ length: 119 }, () => watch.tick())).toEqual(Array(119).fill(undefined));
  expect(watch.tick()).toBe('silent');
});

test('without a limit nothing hangs', () => {
  const watch = new HangWatch(0);
  watch.alive(1);
  expect(Array.from({ length: 100 }, () => watch.tick())).toEqual(Array(100).fill(undefined));
});

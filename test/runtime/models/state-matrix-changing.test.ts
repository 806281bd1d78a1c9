/** The contract's matrix, state × operation: models that are loading, reconfiguring or unloading when it comes. */
import { afterEach, describe, expect, test } from 'vitest';
import type { ModelStatus } from '../../../src/core/worker/status.ts';
import { expectAllOver } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import { failure } from '../slots/slots-fixture.ts';
import {
  AT_REST,
  expectAllSucceeded,
  expectNewWorkRefused,
  LIMITED,
  loading,
  NOTHING_LOADED,
  reconfiguring,
  unloading,
  wholePool,
} from './matrix-fixture.ts';

afterEach(expectAllOver);

const noVictim = failure('BUSY_TIMEOUT', 'no evictable victim');

/** Nothing of a pool, or all of the one of its generation: never a part. */
function expectNothingOrWholePool(told: readonly ModelStatus[], ...slots: number[]): void {
  for (const each of told) {
    const whole = wholePool(slots[each.generation - 1] ?? 0);
    expect(each).toMatchObject(each.loaded ? whole : NOTHING_LOADED);
  }
}

describe.each([1, 2])('loading, with %i slots', (n) => {
  test('loading × request', async () => {
    const { first, open, submitMany, status, ranOn, finishAll, count } = await loading(n);
    const others = submitMany('a', n);
    await turn();
    expect(status('a')).toMatchObject({ state: 'loading', activeSlots: n, queuedRequests: 1 });
    expect(ranOn('a.gguf')).toBe(0);
    open();
    await turn();
    expect(status('a')).toMatchObject({ state: 'ready', activeSlots: n, queuedRequests: 1 });
    expect(ranOn('a.gguf')).toBe(n);
    await finishAll();
    expectAllSucceeded([first, ...others]);
    expect(count('load a.gguf')).toBe(1);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('loading × load, reconfigure', async () => {
    for (const path of ['a.gguf', 'next.gguf']) {
      const all = await loading(n);
      const { first, open, submitMany, status, ranOn, finishAll } = all;
      const others = submitMany('a', n);
      const managing = path === 'a.gguf' ? all.load('a') : all.reconfigure('a', path);
      await turn();
      expect(status('a')).toMatchObject({ state: 'loading', path: 'a.gguf', waitingManagers: 1 });
      open();
      await turn();
      expect([managing.settled, status('a').waitingManagers]).toEqual([false, 1]);
      await finishAll();
      expectAllSucceeded([first, ...others, managing]);
      expect([ranOn('a.gguf'), all.count(`load ${path}`)]).toEqual([n + 1, 1]);
      const generation = path === 'a.gguf' ? 1 : 2;
      expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path, generation });
    }
  });

  test('loading × unload', async () => {
    const { first, open, submitMany, unload, status, ranOn, finishAll } = await loading(n);
    const others = submitMany('a', n);
    const ending = unload('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'loading', waitingManagers: 1 });
    open();
    await turn();
    expect([ending.settled, status('a').state]).toEqual([false, 'ready']);
    await finishAll();
    expectAllSucceeded([first, ...others, ending]);
    expect(ranOn('a.gguf')).toBe(n + 1);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', generation: 1 });
  });

  test('loading × unload many', async () => {
    const { first, open, unloadMany, status, states, finishAll } = await loading(n);
    const bulk = unloadMany('a', 'b');
    expect(status('a')).toMatchObject({ state: 'loading', waitingManagers: 1 });
    await turn();
    expect([bulk.settled, ...states()]).toEqual([false, 'loading', 'unloaded']);
    open();
    await finishAll();
    expectAllSucceeded([first]);
    expect(bulk.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });

  test('loading × eviction, idle end', async () => {
    const all = await loading(n, LIMITED);
    const { clock, runtime, first, open, submit, states, status, finishAll } = all;
    all.register('c');
    await runtime.load('c');
    expect(states()).toEqual(['loading', 'unloaded', 'ready']);
    const busy = submit('c');
    await turn();
    await expect(runtime.load('b')).rejects.toEqual(noVictim);
    await clock.advance(5_000);
    expect(status('a')).toMatchObject({ state: 'loading', activeSlots: 1 });
    open();
    await finishAll();
    expectAllSucceeded([first, busy]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
    await clock.advance(1_000);
    expect(status('a').state).toBe('unloaded');
  });

  test('loading × status', async () => {
    const { engine, runtime, first, open, status, finishAll } = await loading(n);
    const told: ModelStatus[] = [];
    runtime.onChange((each) => told.push(each));
    const weights = status('a');
    expect(weights).toMatchObject({ ...NOTHING_LOADED, state: 'loading', activeSlots: 1 });
    let openPool: () => void = () => undefined;
    engine.onPool = () => new Promise((resolve) => (openPool = resolve));
    open();
    await turn();
    expect(engine.live.weights).toBe(2);
    expect(status('a')).toEqual(weights);
    openPool();
    await turn();
    expect(status('a')).toMatchObject({ ...wholePool(n), state: 'ready', generation: 1 });
    expectNothingOrWholePool(told, n);
    expect(told.map(({ state }) => state)).toContain('ready');
    await finishAll();
    expectAllSucceeded([first]);
    expect(status('a')).toMatchObject(AT_REST);
  });

  test('loading × shutdown', async () => {
    const inTime = await loading(n);
    const ended = inTime.close(100);
    await expectNewWorkRefused(inTime);
    inTime.open();
    await inTime.finishAll();
    expectAllSucceeded([inTime.first, ended]);
    expect(inTime.status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', generation: 1 });

    const { clock, engine, first, open, submitMany, close, ranOn, status } = await loading(n);
    const others = submitMany('a', n);
    const closing = close(100);
    await clock.advance(99);
    expect([first, ...others].some(({ settled }) => settled)).toBe(false);
    await clock.advance(1);
    for (const { error } of [first, ...others]) expect(error).toEqual(failure('SHUTTING_DOWN'));
    expect([closing.settled, status('a').leaving]).toEqual([false, 1]);
    open();
    await turn();
    expectAllSucceeded([closing]);
    expect([ranOn('a.gguf'), engine.live.weights, engine.live.sessions]).toEqual([0, 0, 0]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });
});

describe.each([1, 2])('reconfiguring, with %i slots', (n) => {
  test('reconfiguring × request', async () => {
    const { change, open, submitMany, status, ranOn, finishAll } = await reconfiguring(n);
    const waiting = submitMany('a', n + 1);
    await turn();
    expect(status('a')).toMatchObject({ state: 'reconfiguring', activeSlots: 0 });
    expect(status('a').queuedRequests).toBe(n + 1);
    open();
    await turn();
    expect(status('a')).toMatchObject({ state: 'ready', activeSlots: n, queuedRequests: 1 });
    await finishAll();
    expectAllSucceeded([change, ...waiting]);
    expect([ranOn('a.gguf'), ranOn('next.gguf')]).toEqual([0, n + 1]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 2 });
  });

  test('reconfiguring × load, reconfigure', async () => {
    const { change, open, load, reconfigure, submit, ...all } = await reconfiguring(n);
    const loaded = load('a');
    const between = submit('a');
    const last = reconfigure('a', 'last.gguf');
    await turn();
    expect(all.status('a')).toMatchObject({ state: 'reconfiguring', waitingManagers: 2 });
    expect([loaded.settled, last.settled, all.count('load last.gguf')]).toEqual([false, false, 0]);
    open();
    await all.finishAll();
    expectAllSucceeded([change, loaded, between, last]);
    expect([all.ranOn('next.gguf'), all.count('load next.gguf')]).toEqual([1, 1]);
    expect(all.status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'last.gguf' });
    expect(all.status('a').generation).toBe(3);
  });

  test('reconfiguring × unload', async () => {
    const { change, open, unload, status, count } = await reconfiguring(n);
    const ending = unload('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'reconfiguring', waitingManagers: 1 });
    open();
    await turn();
    expectAllSucceeded([change, ending]);
    expect(count('close weights next.gguf')).toBe(1);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', path: 'next.gguf' });
  });

  test('reconfiguring × unload many', async () => {
    const { change, open, unloadMany, status, states } = await reconfiguring(n);
    const bulk = unloadMany('a', 'b');
    expect(status('a').waitingManagers).toBe(1);
    await turn();
    expect([bulk.settled, ...states()]).toEqual([false, 'reconfiguring', 'unloaded']);
    open();
    await turn();
    expectAllSucceeded([change]);
    expect(bulk.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', path: 'next.gguf' });
  });

  test('reconfiguring × eviction, idle end', async () => {
    const all = await reconfiguring(n, LIMITED);
    const { clock, runtime, change, open, submit, states, status, finishAll } = all;
    all.register('c');
    await runtime.load('c');
    expect(states()).toEqual(['reconfiguring', 'unloaded', 'ready']);
    const busy = submit('c');
    await turn();
    await expect(runtime.load('b')).rejects.toEqual(noVictim);
    await clock.advance(5_000);
    expect(status('a')).toMatchObject({ state: 'reconfiguring', exclusive: true });
    open();
    await finishAll();
    expectAllSucceeded([change, busy]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'next.gguf' });
    await clock.advance(1_000);
    expect(status('a').state).toBe('unloaded');
  });

  test('reconfiguring × status', async () => {
    const { runtime, change, open, holdLoad, status } = await reconfiguring(n);
    const told: ModelStatus[] = [];
    runtime.onChange((each) => told.push(each));
    const seen = status('a');
    expect(seen).toMatchObject({ ...NOTHING_LOADED, path: 'next.gguf', generation: 1 });
    expect(status('a')).toEqual(seen);
    open();
    await change.ended;
    expect(status('a')).toMatchObject({ ...wholePool(n), path: 'next.gguf', generation: 2 });
    const openLast = holdLoad('last.gguf');
    const last = { path: 'last.gguf', slots: 3 };
    const swap = runtime.reconfigure('a', (now) => ({ ...now, ...last }), {
      strategy: 'load-first',
    });
    await turn();
    const old = { ...wholePool(n), path: 'next.gguf', generation: 2, state: 'reconfiguring' };
    expect(status('a')).toMatchObject(old);
    openLast();
    await swap;
    expect(status('a')).toMatchObject({ ...AT_REST, ...wholePool(3), ...last, generation: 3 });
    expect(told.length).toBeGreaterThan(3);
    expectNothingOrWholePool(told, n, n, 3);
  });

  test('reconfiguring × shutdown', async () => {
    const inTime = await reconfiguring(n);
    const ended = inTime.close(100);
    await expectNewWorkRefused(inTime);
    expect(inTime.status('a')).toMatchObject({ state: 'reconfiguring', waitingManagers: 1 });
    inTime.open();
    await turn();
    expectAllSucceeded([inTime.change, ended]);
    expect(inTime.count('close weights next.gguf')).toBe(1);
    expect(inTime.status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', generation: 2 });

    const { clock, engine, change, open, close, status } = await reconfiguring(n);
    const closing = close(100);
    await clock.advance(100);
    expect(change.error).toEqual(failure('SHUTTING_DOWN'));
    expect([closing.settled, status('a').leaving]).toEqual([false, 1]);
    open();
    await turn();
    expectAllSucceeded([closing]);
    expect(engine.live).toEqual({ weights: 0, sessions: 0 });
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', path: 'next.gguf' });
  });
});

describe.each([1, 2])('unloading, with %i slots', (n) => {
  test('unloading × request', async () => {
    const { ending, open, submit, status, finishAll, count } = await unloading(n);
    const seen = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'unloading', activeSlots: 0, queuedRequests: 1 });
    expect(count('load a.gguf')).toBe(1);
    open();
    await finishAll();
    expectAllSucceeded([ending, seen]);
    expect(count('load a.gguf')).toBe(2);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 2 });
  });

  test('unloading × load, reconfigure', async () => {
    for (const path of ['a.gguf', 'next.gguf']) {
      const { ending, open, load, reconfigure, engine, status } = await unloading(n);
      const before = engine.events.length;
      const managing = path === 'a.gguf' ? load('a') : reconfigure('a', path);
      await turn();
      expect(status('a')).toMatchObject({ state: 'unloading', waitingManagers: 1 });
      expect(engine.events.length).toBe(before);
      open();
      await turn();
      expectAllSucceeded([ending, managing]);
      expect(engine.events.slice(before)).toEqual([
        ...['close sessions a.gguf', 'close weights a.gguf', `load ${path}`, `pool ${path} ${n}`],
      ]);
      expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path, generation: 2 });
    }
  });

  test('unloading × unload', async () => {
    const { ending, open, unload, status, count } = await unloading(n);
    const again = unload('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'unloading', waitingManagers: 1 });
    expect(again.settled).toBe(false);
    open();
    await turn();
    expectAllSucceeded([ending, again]);
    expect([count('close sessions a.gguf'), count('close weights a.gguf')]).toEqual([1, 1]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', generation: 1 });
  });

  test('unloading × unload many', async () => {
    const { ending, open, unloadMany, status, count } = await unloading(n);
    const bulk = unloadMany('a', 'b');
    expect(status('a').waitingManagers).toBe(1);
    await turn();
    expect([bulk.settled, status('a').state, status('b').state]).toEqual([
      ...[false, 'unloading', 'unloaded'],
    ]);
    open();
    await turn();
    expectAllSucceeded([ending]);
    expect(bulk.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    expect(count('close sessions a.gguf')).toBe(1);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });

  test('unloading × eviction, idle end', async () => {
    const { clock, runtime, ending, open, register, ...all } = await unloading(n, LIMITED);
    register('c');
    await runtime.load('c');
    expect(all.states()).toEqual(['unloading', 'ready', 'ready']);
    await clock.advance(1_000);
    expect(all.states()).toEqual(['unloading', 'unloaded', 'unloaded']);
    expect(all.status('a')).toMatchObject({ exclusive: true, leaving: 1 });
    open();
    await turn();
    expectAllSucceeded([ending]);
    expect(all.count('close sessions a.gguf')).toBe(1);
    expect(all.status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });

  test('unloading × status', async () => {
    const { engine, ending, open, status } = await unloading(n);
    const seen = status('a');
    expect(seen).toMatchObject({ ...NOTHING_LOADED, state: 'unloading', slots: n, leaving: 1 });
    expect(seen).toMatchObject({ exclusive: true, activeSlots: 0, generation: 1 });
    expect(engine.live).toEqual({ weights: 2, sessions: 2 * n });
    expect(status('a')).toEqual(seen);
    open();
    await ending.ended;
    expect(engine.live).toEqual({ weights: 1, sessions: n });
    expect(status('a')).toMatchObject({ ...AT_REST, ...NOTHING_LOADED, state: 'unloaded' });
  });

  test('unloading × shutdown', async () => {
    const all = await unloading(n);
    const closing = all.close(100);
    await expectNewWorkRefused(all);
    await all.clock.advance(100);
    expect([all.ending.settled, closing.settled]).toEqual([false, false]);
    expect(all.status('a')).toMatchObject({ state: 'unloading', leaving: 1 });
    all.open();
    await turn();
    expectAllSucceeded([all.ending, closing]);
    expect(all.count('close sessions a.gguf')).toBe(1);
    expect(all.engine.live).toEqual({ weights: 0, sessions: 0 });
    expect(all.status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });
});

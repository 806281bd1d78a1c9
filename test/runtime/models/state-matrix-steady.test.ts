/** The contract's matrix, state × operation: models that are unloaded, ready or failed when the operation comes. */
import { afterEach, describe, expect, test } from 'vitest';
import { expectAllOver } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import { failure, watch } from '../slots/slots-fixture.ts';
import {
  AT_REST,
  expectAllSucceeded,
  expectNewWorkRefused,
  failed,
  full,
  LIMITED,
  NOTHING_LOADED,
  ready,
  unloaded,
  wholePool,
} from './matrix-fixture.ts';

afterEach(expectAllOver);

const noVictim = failure('BUSY_TIMEOUT', 'no evictable victim');

describe.each([1, 2])('unloaded, with %i slots', (n) => {
  test('unloaded × request', async () => {
    const { holdLoad, submit, status, ranOn, finishAll } = await unloaded(n);
    const open = holdLoad('a.gguf');
    const seen = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'loading', activeSlots: 1, loaded: false });
    open();
    await turn();
    expect(status('a')).toMatchObject({ state: 'ready', activeSlots: 1, generation: 1 });
    expect([seen.settled, ranOn('a.gguf')]).toEqual([false, 1]);
    await finishAll();
    expect(seen.value?.text).toBe('0.1:16000');
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready' });
  });

  test('unloaded × load, reconfigure', async () => {
    for (const path of ['a.gguf', 'next.gguf']) {
      const { holdLoad, load, reconfigure, submit, status, ranOn, finishAll } = await unloaded(n);
      const open = holdLoad(path);
      const managing = path === 'a.gguf' ? load('a') : reconfigure('a', path);
      const behind = submit('a');
      await turn();
      expect(status('a')).toMatchObject({ exclusive: true, activeSlots: 0, queuedRequests: 1 });
      expect(status('a').loaded).toBe(false);
      open();
      await managing.ended;
      expect(managing.value).toMatchObject({ reconfigured: false });
      await finishAll();
      expectAllSucceeded([behind]);
      expect(ranOn(path)).toBe(1);
      expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path, generation: 1 });
    }
  });

  test('unloaded × unload', async () => {
    const { engine, unload, status } = await unloaded(n);
    const before = [...engine.events];
    const unloadingA = unload('a');
    await turn();
    expectAllSucceeded([unloadingA]);
    expect(engine.events).toEqual(before);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', generation: 0 });
  });

  test('unloaded × unload many', async () => {
    const { unloadMany, states, status, count } = await unloaded(n);
    const bulk = unloadMany('a', 'b', 'a');
    await turn();
    expect(bulk.value).toEqual({ unloaded: ['a', 'b'], notFound: [] });
    expect(states()).toEqual(['unloaded', 'unloaded']);
    expect([count('close weights a.gguf'), count('close weights b.gguf')]).toEqual([0, 1]);
    expect(status('a')).toMatchObject(AT_REST);
  });

  test('unloaded × eviction, idle end', async () => {
    const { clock, engine, register, runtime, submit, status, states, finishAll } = await unloaded(
      n,
      { ...LIMITED, maxLoadedModels: 1 },
    );
    register('c');
    submit('b');
    await turn();
    await expect(runtime.load('c')).rejects.toEqual(noVictim);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', failure: null });
    await finishAll();
    await runtime.load('c');
    expect(states()).toEqual(['unloaded', 'unloaded', 'ready']);
    await clock.advance(1_000);
    expect(states()).toEqual(['unloaded', 'unloaded', 'unloaded']);
    expect(engine.events.filter((event) => event.includes(' a.gguf'))).toEqual([]);
  });

  test('unloaded × status', async () => {
    const { engine, status } = await unloaded(n);
    const before = [...engine.events];
    const seen = status('a');
    expect(seen).toMatchObject({ ...AT_REST, ...NOTHING_LOADED, slots: n, generation: 0 });
    expect(seen).toMatchObject({ state: 'unloaded', path: 'a.gguf', mode: 'offline' });
    await turn();
    expect(engine.events).toEqual(before);
    expect(status('a')).toEqual(seen);
  });

  test('unloaded × shutdown', async () => {
    const all = await unloaded(n);
    const closing = all.close(1_000);
    await expectNewWorkRefused(all);
    expectAllSucceeded([closing]);
    expect(all.count('load a.gguf')).toBe(0);
    expect(all.status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });
});

describe.each([1, 2])('ready, with %i slots', (n) => {
  test('ready × request', async () => {
    const { submit, submitMany, status, finish, finishAll } = await ready(n);
    const first = submitMany('a', n);
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: n, queuedRequests: 0 });
    const queued = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: n, queuedRequests: 1 });
    await finish('a.gguf');
    expectAllSucceeded(first);
    expect(status('a')).toMatchObject({ activeSlots: 1, queuedRequests: 0 });
    await finishAll();
    const slots = first.map(({ value }) => value?.text.split('.')[0]);
    expect(slots).toEqual(n === 1 ? ['0'] : ['0', '1']);
    expect(queued.value?.text).toBe(`0.2:${(n + 1) * 16_000}`);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('ready × load, reconfigure', async () => {
    const all = await full(n);
    const { runtime, reconfigure, load, submit, status, ranOn, finishAll } = all;
    const refused = watch(runtime.reconfigure('a', (now) => ({ ...now, slots: 9 })));
    const loaded = load('a');
    const change = reconfigure('a', 'next.gguf');
    const newer = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'ready', path: 'a.gguf', waitingManagers: 3 });
    expect(status('a')).toMatchObject({ activeSlots: n, queuedRequests: 2 });
    expect(all.count('close sessions a.gguf')).toBe(0);
    await finishAll();
    expectAllSucceeded([...all.older, newer, loaded, change]);
    expect(refused.error).toEqual(failure('SLOTS_UNSUPPORTED', 'supports 8'));
    expect([ranOn('a.gguf'), ranOn('next.gguf')]).toEqual([n + 1, 1]);
    // The refused replacement and the load left the pool that was there.
    expect(all.count('load a.gguf')).toBe(1);
    expect(change.value).toMatchObject({ reconfigured: true });
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'next.gguf' });
    expect(status('a').generation).toBe(2);
  });

  test('ready × unload', async () => {
    const { older, unload, status, ranOn, finishAll, count } = await full(n);
    const unloadingA = unload('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'ready', waitingManagers: 1, activeSlots: n });
    await finishAll();
    expectAllSucceeded([...older, unloadingA]);
    expect([ranOn('a.gguf'), count('close weights a.gguf')]).toEqual([n + 1, 1]);
    expect(status('a')).toMatchObject({ ...AT_REST, ...NOTHING_LOADED, state: 'unloaded' });
  });

  test('ready × unload many', async () => {
    const { older, unloadMany, status, states, finishAll } = await full(n);
    const bulk = unloadMany('a', 'b');
    expect(status('a').waitingManagers).toBe(1);
    await turn();
    expect([bulk.settled, ...states()]).toEqual([false, 'ready', 'unloaded']);
    await finishAll();
    expectAllSucceeded(older);
    expect(bulk.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });

  test('ready × eviction, idle end', async () => {
    const { clock, register, runtime, older, submit, states, status, finishAll } = await full(
      n,
      LIMITED,
    );
    register('c');
    await runtime.load('c');
    expect(states()).toEqual(['ready', 'unloaded', 'ready']);
    submit('c');
    await turn();
    await expect(runtime.load('b')).rejects.toEqual(noVictim);
    await clock.advance(5_000);
    expect(status('a')).toMatchObject({ state: 'ready', activeSlots: n, queuedRequests: 1 });
    await finishAll();
    expectAllSucceeded(older);
    await runtime.load('b');
    expect(states()).toEqual(['unloaded', 'ready', 'ready']);
    await runtime.load('a');
    await clock.advance(999);
    expect(status('a').state).toBe('ready');
    await clock.advance(1);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', generation: 2 });
  });

  test('ready × status', async () => {
    const { status, submit, finishAll } = await full(n);
    const seen = status('a');
    expect(seen).toMatchObject({ ...wholePool(n), state: 'ready', family: 'double', task: 'asr' });
    expect(seen).toMatchObject({ generation: 1, activeSlots: n, queuedRequests: 1, idleMs: 0 });
    expect(seen).toMatchObject({ exclusive: false, waitingManagers: 0, leaving: 0 });
    expect(seen.batches).toMatchObject({ runningItems: n, queuedItems: 1, completedItems: 0 });
    expect(status('a')).toEqual(seen);
    await finishAll();
    expect(status('a').batches).toMatchObject({ runningItems: 0, completedItems: n + 1 });
    const next = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: 1, queuedRequests: 0 });
    await finishAll();
    expectAllSucceeded([next]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready' });
  });

  test('ready × shutdown', async () => {
    const { clock, older, close, engine, status, ranOn, finishAll } = await full(n);
    const closing = close(100);
    await clock.advance(99);
    expect(older.map(({ settled }) => settled)).toEqual(older.map(() => false));
    await clock.advance(1);
    expect(older.at(-1)?.error).toEqual(failure('SHUTTING_DOWN'));
    expect([older[0]?.settled, closing.settled]).toEqual([false, false]);
    expect(engine.live.sessions).toBe(n);
    await finishAll();
    expectAllSucceeded([...older.slice(0, n), closing]);
    expect(ranOn('a.gguf')).toBe(n);
    expect(engine.live).toEqual({ weights: 0, sessions: 0 });
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });
});

describe.each([1, 2])('failed, with %i slots', (n) => {
  test('failed × request', async () => {
    const { holdLoad, submit, status, finishAll, count } = await failed(n);
    const open = holdLoad('a.gguf');
    const seen = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'loading', failure: null, activeSlots: 1 });
    open();
    await finishAll();
    expectAllSucceeded([seen]);
    expect(count('load a.gguf')).toBe(2);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('failed × load, reconfigure', async () => {
    for (const path of ['a.gguf', 'next.gguf']) {
      const { runtime, load, reconfigure, holdLoad, status } = await failed(n);
      await expect(runtime.reconfigure('a', (now) => ({ ...now, slots: 9 }))).rejects.toEqual(
        failure('SLOTS_UNSUPPORTED'),
      );
      expect(status('a')).toMatchObject({ ...AT_REST, state: 'failed', slots: n });
      expect(status('a').failure?.message).toContain('torn file');
      const open = holdLoad(path);
      const managing = path === 'a.gguf' ? load('a') : reconfigure('a', path);
      await turn();
      expect(status('a')).toMatchObject({ exclusive: true, failure: null, path });
      open();
      await managing.ended;
      expectAllSucceeded([managing]);
      expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path, generation: 1 });
    }
  });

  test('failed × unload', async () => {
    const { engine, unload, status } = await failed(n);
    const before = [...engine.events];
    const unloadingA = unload('a');
    await turn();
    expectAllSucceeded([unloadingA]);
    expect(engine.events).toEqual(before);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', failure: null });
  });

  test('failed × unload many', async () => {
    const { unloadMany, states, status } = await failed(n);
    const bulk = unloadMany('b', 'a', 'a');
    await turn();
    expect(bulk.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    expect(states()).toEqual(['unloaded', 'unloaded']);
    expect(status('a')).toMatchObject({ ...AT_REST, failure: null });
  });

  test('failed × eviction, idle end', async () => {
    const { clock, register, runtime, states, status } = await failed(n, LIMITED);
    for (const id of ['c', 'd']) register(id);
    await runtime.load('c');
    expect(states()).toEqual(['failed', 'ready', 'ready', 'unloaded']);
    await runtime.load('d');
    expect(states()).toEqual(['failed', 'unloaded', 'ready', 'ready']);
    await clock.advance(1_000);
    expect(states()).toEqual(['failed', 'unloaded', 'unloaded', 'unloaded']);
    expect(status('a').failure).toEqual(failure('MODEL_LOAD_FAILED', 'torn file'));
    expect(status('a')).toMatchObject(AT_REST);
  });

  test('failed × status', async () => {
    const { engine, status } = await failed(n);
    const before = [...engine.events];
    const seen = status('a');
    expect(seen).toMatchObject({ ...AT_REST, ...NOTHING_LOADED, state: 'failed', slots: n });
    expect(seen.failure).toEqual(failure('MODEL_LOAD_FAILED', 'torn file'));
    await turn();
    expect([status('a'), engine.events]).toEqual([seen, before]);
  });

  test('failed × shutdown', async () => {
    const all = await failed(n);
    const before = all.engine.events.filter((event) => event.includes(' a.gguf'));
    const closing = all.close(1_000);
    await expectNewWorkRefused(all);
    expectAllSucceeded([closing]);
    expect(all.engine.events.filter((event) => event.includes(' a.gguf'))).toEqual(before);
    expect(all.status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });
});

/** §2.12 and §6: the bounds on waiting, streams that keep a slot, and what listeners and the snapshot are told. */
import { afterEach, describe, expect, test } from 'vitest';
import { ModelStatus } from '../../../src/core/worker/status.ts';
import { segment } from '../batches/batcher-fixture.ts';
import { expectAllOver, gate, lifecycle } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import { failure, watch } from './slots-fixture.ts';

afterEach(expectAllOver);

describe('the busy timeout', () => {
  test.each([
    ['the runtime, where the model has none', undefined, undefined, 300],
    ['the model, though longer than the runtime’s', 500, undefined, 500],
    ['the request, where it is shorter', 500, 70, 70],
    ['the model, where the request’s is longer', 500, 900, 500],
    ['the model, where the request asks for none', 500, 0, 500],
  ])('comes from %s', async (_, busyTimeoutMs, requested, expected) => {
    const { clock, register, submit, finishAll } = lifecycle({ busyTimeoutMs: 300 });
    register('a', { busyTimeoutMs });
    const holder = submit('a', { busyTimeoutMs: 0 });
    await turn();
    const waiting = submit('a', requested === undefined ? {} : { busyTimeoutMs: requested });
    await clock.advance(expected - 1);
    expect(waiting.settled).toBe(false);
    await clock.advance(1);
    expect(waiting.error).toEqual(failure('BUSY_TIMEOUT', `${expected} ms`));
    await finishAll();
    expect(holder.value).toBeDefined();
  });

  test('a request that arrives behind overdue work is refused at once, also while a manager waits', async () => {
    const { clock, register, runtime, submit, status, finishAll } = lifecycle();
    register('a', { slots: 2 });
    submit('a');
    await turn();
    const unloading = watch(runtime.unload('a'));
    await clock.advance(30);
    const before = { ...status('a'), idleMs: 0 };
    const refused = failure('BUSY_OVERDUE', 'all active slots are overdue');
    await expect(runtime.entry('a').submit(segment('B', 9), { busyTimeoutMs: 15 })).rejects.toEqual(
      refused,
    );
    await expect(runtime.entry('a').acquireStream({ busyTimeoutMs: 15 })).rejects.toEqual(refused);
    expect({ ...status('a'), idleMs: 0 }).toEqual(before);
    await finishAll();
    expect(unloading.settled).toBe(true);
  });
});

describe('a bounded queue', () => {
  test('refuses what comes beyond it with an error of its own; managers are exempt', async () => {
    const { register, runtime, submit, status, finishAll } = lifecycle();
    register('a', { maxQueued: 2 });
    const running = submit('a');
    await turn();
    const waiting = [submit('a'), watch(runtime.entry('a').acquireStream())];
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: 1, queuedRequests: 2 });
    const full = failure('QUEUE_FULL', '2 requests of a wait already');
    await expect(runtime.entry('a').submit(segment('B', 9))).rejects.toEqual(full);
    await expect(runtime.entry('a').acquireStream()).rejects.toEqual(full);
    const unloading = watch(runtime.unload('a'));
    await finishAll();
    expect([running.settled, waiting[0]?.settled]).toEqual([true, true]);
    const stream = waiting[1]?.value;
    if (stream && 'release' in stream) stream.release();
    await turn();
    expect(unloading.settled).toBe(true);
    const next = submit('a');
    await finishAll();
    expect(next.value).toBeDefined();
  });

  test('a request that leaves makes room for another one', async () => {
    const { register, submit, finishAll } = lifecycle();
    register('a', { maxQueued: 1 });
    submit('a');
    await turn();
    const cancel = new AbortController();
    const first = submit('a', { signal: cancel.signal });
    await turn();
    cancel.abort();
    const second = submit('a');
    await finishAll();
    expect([first.error, second.value !== undefined]).toEqual([failure('CANCELLED'), true]);
  });

  test('a refused or invalid request holds nothing', async () => {
    const { register, runtime, status } = lifecycle();
    register('a');
    const empty = { ...segment('A', 1).task, endSample: 16_000 };
    await expect(runtime.entry('a').submit({ ...segment('A', 1), task: empty })).rejects.toEqual(
      failure('INVALID_REQUEST', 'empty'),
    );
    await expect(runtime.entry('a').submit(segment('A', 1), { busyTimeoutMs: -1 })).rejects.toEqual(
      failure('INVALID_REQUEST', 'busyTimeoutMs'),
    );
    expect(status('a')).toMatchObject({ state: 'unloaded', activeSlots: 0, queuedRequests: 0 });
  });
});

describe('a stream', () => {
  test('keeps one slot of one configuration: a manager waits for it, requests use the other slots', async () => {
    const { register, runtime, submit, status, finishAll, engine } = lifecycle();
    register('a', { slots: 2 });
    const stream = await runtime.entry('a').acquireStream();
    expect([stream.slot, stream.generation, stream.info.family]).toEqual([0, 1, 'double']);
    expect(stream.pool).toBe(engine.pools[0]);
    const beside = submit('a');
    await finishAll();
    expect(beside.value?.text).toBe('1.1:16000');
    const change = watch(runtime.reconfigure('a', (now) => ({ ...now, slots: 1 })));
    await turn();
    expect(status('a')).toMatchObject({ waitingManagers: 1, slots: 2 });
    stream.release();
    stream.release();
    await turn();
    expect(change.value).toMatchObject({ reconfigured: true });
    expect(() => stream.slot).toThrow(failure('INTERNAL', 'released lease'));
    expect(status('a')).toMatchObject({ activeSlots: 0, slots: 1 });
  });

  test('one whose model cannot be loaded, or that gives up, holds nothing', async () => {
    const { engine, register, runtime, status } = lifecycle();
    const entry = register('a');
    engine.onLoad = () => Promise.reject(new Error('disk'));
    await expect(entry.acquireStream()).rejects.toEqual(failure('INTERNAL', 'disk'));
    expect(status('a')).toMatchObject({ state: 'failed', activeSlots: 0 });
    const loading = gate();
    engine.onLoad = loading.wait;
    const cancel = new AbortController();
    const waiting = watch(entry.acquireStream({ signal: cancel.signal }));
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: 1 });
    cancel.abort();
    await turn();
    expect(waiting.error).toEqual(failure('CANCELLED'));
    expect(status('a')).toMatchObject({ state: 'loading', activeSlots: 0 });
    loading.open();
    await turn();
    expect(runtime.entry('a').state).toBe('ready');
  });
});

describe('listeners', () => {
  test('hear of each change of state in its turn, once, as one snapshot', async () => {
    const { engine, register, runtime } = lifecycle();
    const told: string[] = [];
    const stop = runtime.onChange((status) => {
      ModelStatus.parse(status);
      expect(status).toEqual(runtime.entry(status.id).snapshot());
      told.push(`${status.id} ${status.state} ${status.generation} ${status.slots}`);
    });
    register('a');
    expect(told).toEqual(['a unloaded 0 1']);
    const loading = gate();
    engine.onLoad = loading.wait;
    const load = runtime.load('a');
    await turn();
    expect(told.at(-1)).toBe('a loading 0 1');
    loading.open();
    await load;
    await runtime.reconfigure('a', (now) => ({ ...now, slots: 2 }));
    await runtime.unload('a');
    const order = told.filter((line, index) => line !== told[index - 1]);
    expect(order).toEqual([
      ...['a unloaded 0 1', 'a loading 0 1', 'a ready 1 1', 'a reconfiguring 1 1'],
      ...['a reconfiguring 1 2', 'a ready 2 2', 'a unloading 2 2', 'a unloaded 2 2'],
    ]);
    stop();
    await runtime.load('a');
    expect(told.at(-1)).toBe('a unloaded 2 2');
  });

  test('hear of managers that join, leave and are served', async () => {
    const { register, runtime, submit, finishAll } = lifecycle();
    register('a');
    submit('a');
    await turn();
    const told: string[] = [];
    runtime.onChange(({ waitingManagers, exclusive }) =>
      told.push(`${waitingManagers}${exclusive ? '!' : ''}`),
    );
    const cancel = new AbortController();
    const managed = [runtime.load('a'), watch(runtime.unload('a', { signal: cancel.signal }))];
    cancel.abort();
    expect(told).toEqual(['1', '2', '1']);
    await finishAll();
    expect(told).toEqual(['1', '2', '1', '0!', '0']);
    await managed[0];
  });

  test('one that throws hurts neither the change nor the others', async () => {
    const errors: unknown[] = [];
    const { register, runtime, status } = lifecycle({
      onBackgroundError: (error) => errors.push(error),
    });
    runtime.onChange(() => {
      throw new Error('a broken listener');
    });
    let told = 0;
    runtime.onChange(() => {
      told += 1;
    });
    register('a');
    await runtime.load('a');
    expect(status('a').state).toBe('ready');
    expect(told).toBeGreaterThan(2);
    expect(errors).toHaveLength(told);
  });
});

test('L4 and L13 a snapshot and a look-up never wait, whatever a model is at', async () => {
  const { engine, register, runtime, states, submit, finishAll } = lifecycle();
  register('loading');
  register('unloading');
  register('ready');
  await runtime.load('unloading');
  const [loading, closing] = [gate(), gate()];
  engine.onPoolClose = closing.wait;
  const unload = watch(runtime.unload('unloading'));
  engine.onLoad = (path) => (path === 'loading.gguf' ? loading.wait() : Promise.resolve());
  const load = watch(runtime.load('loading'));
  await turn();
  expect(states()).toEqual(['loading', 'unloading', 'unloaded']);
  expect(runtime.entry('loading').configuration.path).toBe('loading.gguf');
  const other = submit('ready');
  await finishAll();
  expect(other.value).toBeDefined();
  loading.open();
  closing.open();
  await turn();
  expect([load.settled, unload.settled]).toEqual([true, true]);
});

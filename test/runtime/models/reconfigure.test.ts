/** §2.8–2.9: what is refused before anything is retired, what a commit leaves behind, and load-then-swap (§6). */
import { afterEach, describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import type { ModelConfiguration } from '../../../src/runtime/models/model-configuration.ts';
import { FAMILY_DECIDES, type ModelPolicy } from '../../../src/runtime/models/slot-policy.ts';
import { expectAllOver, gate, gateFor, lifecycle, plan } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import { failure, watch } from '../slots/slots-fixture.ts';

afterEach(expectAllOver);

const to = (changes: Partial<ModelConfiguration>) => (current: ModelConfiguration) => ({
  ...current,
  ...changes,
});

async function loaded(slots = 1, options: Parameters<typeof lifecycle>[0] = {}) {
  const all = lifecycle(options);
  all.register('a', { slots });
  await all.runtime.load('a');
  all.engine.events.length = 0;
  return all;
}

describe('no change', () => {
  test('the same configuration touches nothing and says so', async () => {
    const { engine, runtime, status } = await loaded();
    const { entry, reconfigured } = await runtime.reconfigure('a', to({}));
    expect([reconfigured, entry.generation, engine.events]).toEqual([false, 1, []]);
    expect(status('a').state).toBe('ready');
  });

  test('it loads a model that was not loaded', async () => {
    const { engine, runtime, register, status } = lifecycle();
    register('a');
    expect(await runtime.reconfigure('a', to({}))).toMatchObject({ reconfigured: false });
    expect(engine.events).toEqual(['load a.gguf', 'pool a.gguf 1']);
    expect(status('a').state).toBe('ready');
  });

  test('limits of batches and waits take effect without another pool', async () => {
    const { engine, runtime, submit, clock, finishAll } = await loaded();
    const change = to({ busyTimeoutMs: 30, maxQueued: 2 });
    expect(await runtime.reconfigure('a', change)).toMatchObject({ reconfigured: false });
    expect(engine.events).toEqual([]);
    const seen = [submit('a'), submit('a', { busyTimeoutMs: 500 })];
    await clock.advance(30);
    expect(seen[1]?.error).toEqual(failure('BUSY_TIMEOUT', '30 ms'));
    await finishAll();
  });
});

describe('before the commit', () => {
  test.each([
    ['a count of no model', { slots: 17 }, 'SLOTS_UNSUPPORTED', '17'],
    ['a fraction', { slots: 1.5 }, 'SLOTS_UNSUPPORTED', '1.5'],
    ['more than the family supports', { slots: 9 }, 'SLOTS_UNSUPPORTED', 'supports 8'],
    ['more than other weights support', { slots: 3, path: 'small.gguf' }, 'SLOTS_UNSUPPORTED', '2'],
    ['more than other options support', { slots: 9, threads: 2 }, 'SLOTS_UNSUPPORTED', '8'],
    ['no mode', { mode: 'backwards' }, 'INVALID_REQUEST', 'backwards'],
    ['no batch', { maxBatch: 0 }, 'INVALID_REQUEST', 'maxBatch'],
    ['no thread', { threads: 0 }, 'INVALID_REQUEST', 'threads'],
    ['a negative timeout', { busyTimeoutMs: -1 }, 'INVALID_REQUEST', 'busy timeout'],
    ['a path of nothing', { path: '' }, 'INVALID_REQUEST', 'path'],
  ] as const)('%s is refused, and the old pool serves on', async (_, changes, code, words) => {
    const { engine, runtime, submit, status, finishAll } = await loaded(2);
    engine.capacities.set('small.gguf', 2);
    const before = status('a');
    // A caller without types may send anything.
    const change = to(changes as Partial<ModelConfiguration>);
    await expect(runtime.reconfigure('a', change)).rejects.toEqual(failure(code, words));
    expect({ ...status('a'), idleMs: 0 }).toEqual({ ...before, idleMs: 0 });
    expect(engine.live).toEqual({ weights: 1, sessions: 2 });
    const seen = submit('a');
    await finishAll();
    expect(seen.value).toBeDefined();
    expect(engine.pools[0]?.runs).toHaveLength(1);
    expect(await runtime.reconfigure('a', to({ slots: 4 }))).toMatchObject({ reconfigured: true });
    expect(status('a')).toMatchObject({ slots: 4, generation: 2, state: 'ready' });
  });

  test('a live pool of the same sessions answers for its family: nothing is built', async () => {
    const { engine, runtime } = await loaded();
    await expect(runtime.reconfigure('a', to({ slots: 9 }))).rejects.toThrow();
    expect(engine.events).toEqual([]);
  });

  test('other options are probed with one session of the loaded weights, other weights with their own', async () => {
    const { engine, runtime } = await loaded();
    await expect(runtime.reconfigure('a', to({ slots: 9, threads: 2 }))).rejects.toThrow();
    expect(engine.events).toEqual(['pool a.gguf 1', 'close sessions a.gguf']);
    engine.events.length = 0;
    await expect(runtime.reconfigure('a', to({ slots: 9, path: 'b.gguf' }))).rejects.toThrow();
    expect(engine.events).toEqual([
      ...['load b.gguf', 'pool b.gguf 1', 'close sessions b.gguf', 'close weights b.gguf'],
    ]);
  });

  test('a probe that fails changes nothing, and the change itself may refuse', async () => {
    const { engine, runtime, status } = await loaded();
    engine.onPool = () => Promise.reject(new WavepoolError('INSUFFICIENT_MEMORY', 'probe'));
    const other = to({ slots: 2, path: 'b.gguf' });
    await expect(runtime.reconfigure('a', other)).rejects.toEqual(failure('INSUFFICIENT_MEMORY'));
    const refuse = () => {
      throw new WavepoolError('INVALID_REQUEST', 'no such preset');
    };
    await expect(runtime.reconfigure('a', refuse)).rejects.toEqual(failure('INVALID_REQUEST'));
    expect(status('a')).toMatchObject({ state: 'ready', path: 'a.gguf', generation: 1 });
    expect(engine.live).toEqual({ weights: 1, sessions: 1 });
  });

  test('a plan answers from metadata: nothing is loaded for the question', async () => {
    const asked: unknown[] = [];
    const policy: ModelPolicy = {
      ...FAMILY_DECIDES,
      plan: ({ path, mode, threads, maxBatch }) => {
        asked.push([path, { mode, threads, maxBatch }]);
        return Promise.resolve({ ...plan('planned'), capacity: 3 });
      },
    };
    const { engine, runtime, status } = await loaded(1, { policy });
    await expect(runtime.reconfigure('a', to({ slots: 4, path: 'b.gguf' }))).rejects.toEqual(
      failure('SLOTS_UNSUPPORTED', 'supports 3'),
    );
    expect(asked).toEqual([['b.gguf', { mode: 'offline', threads: 1, maxBatch: 1 }]]);
    expect(engine.events).toEqual([]);
    await runtime.reconfigure('a', to({ slots: 3, path: 'b.gguf' }));
    expect(status('a')).toMatchObject({ slots: 3, path: 'b.gguf' });
  });

  test('L24 a count without evidence is refused unless the operator takes it', async () => {
    const evidence = (id: string) => (id === 'a' ? 2 : 1);
    const strict = await loaded(1, {
      policy: { ...FAMILY_DECIDES, unvalidatedSlots: 0, evidence },
    });
    await strict.runtime.reconfigure('a', to({ slots: 2 }));
    await expect(strict.runtime.reconfigure('a', to({ slots: 3 }))).rejects.toEqual(
      failure('CAPACITY_UNVALIDATED', 'wavepool models validate a --slots 3'),
    );
    expect(() => strict.register('b', { slots: 2 })).toThrow(failure('CAPACITY_UNVALIDATED'));
    expect(strict.register('b', { slots: 1 }).state).toBe('unloaded');
    const taken = await loaded(1, { policy: { ...FAMILY_DECIDES, evidence: () => 1 } });
    await taken.runtime.reconfigure('a', to({ slots: 3 }));
    expect(taken.status('a').slots).toBe(3);
  });
});

describe('retire first', () => {
  test('the old pool is freed, the new configuration committed, then loaded', async () => {
    const { engine, runtime, states, status } = await loaded();
    const [closing, loading] = [gate(), gateFor('b.gguf')];
    engine.onPoolClose = closing.wait;
    engine.onLoad = loading.wait;
    const change = watch(runtime.reconfigure('a', to({ path: 'b.gguf' })));
    await turn();
    expect(status('a')).toMatchObject({
      state: 'reconfiguring',
      path: 'a.gguf',
      loaded: false,
      maxParallelSlots: null,
      leaving: 1,
    });
    closing.open();
    await turn();
    expect(status('a')).toMatchObject({ state: 'reconfiguring', path: 'b.gguf', leaving: 0 });
    loading.open();
    await turn();
    expect(states()).toEqual(['ready']);
    expect(change.value).toMatchObject({ reconfigured: true });
    expect(engine.events).toEqual([
      ...['close sessions a.gguf', 'close weights a.gguf', 'load b.gguf', 'pool b.gguf 1'],
    ]);
  });

  test('what fails after the commit leaves the new configuration unloaded, and the next request loads it', async () => {
    const { engine, runtime, submit, status, finishAll } = await loaded();
    engine.onLoad = () => Promise.reject(new WavepoolError('MODEL_FILE_INVALID', 'b is broken'));
    await expect(runtime.reconfigure('a', to({ path: 'b.gguf', slots: 1 }))).rejects.toEqual(
      failure('MODEL_FILE_INVALID'),
    );
    expect(status('a')).toMatchObject({
      state: 'failed',
      path: 'b.gguf',
      loaded: false,
      failure: { code: 'MODEL_FILE_INVALID' },
    });
    engine.onLoad = () => Promise.resolve();
    const seen = submit('a');
    await finishAll();
    expect(seen.value).toBeDefined();
    expect(engine.events.slice(-2)).toEqual(['load b.gguf', 'pool b.gguf 1']);
  });

  test('it waits no longer than the load timeout, after which the new one becomes ready by itself', async () => {
    const { clock, engine, runtime, status } = await loaded(1, { loadTimeoutMs: 50 });
    const loading = gateFor('b.gguf');
    engine.onLoad = loading.wait;
    const change = watch(runtime.reconfigure('a', to({ path: 'b.gguf' })));
    await clock.advance(50);
    expect(change.error).toEqual(failure('MODEL_LOAD_TIMEOUT'));
    expect(status('a')).toMatchObject({ state: 'loading', path: 'b.gguf', exclusive: false });
    loading.open();
    await turn();
    expect(status('a')).toMatchObject({ state: 'ready', generation: 2 });
  });
});

describe('load first', () => {
  const strategy = 'load-first';

  test('the new pool is made beside the old one and takes its place in one turn', async () => {
    const { engine, runtime, status } = await loaded();
    const [loading, closing] = [gateFor('b.gguf'), gate()];
    engine.onLoad = loading.wait;
    engine.onPoolClose = closing.wait;
    const change = watch(runtime.reconfigure('a', to({ path: 'b.gguf', slots: 1 }), { strategy }));
    await turn();
    expect(status('a')).toMatchObject({ state: 'reconfiguring', path: 'a.gguf', loaded: true });
    loading.open();
    await turn();
    expect(status('a')).toMatchObject({
      state: 'ready',
      path: 'b.gguf',
      generation: 2,
      loaded: true,
      leaving: 1,
      exclusive: true,
    });
    closing.open();
    await turn();
    expect(change.value).toMatchObject({ reconfigured: true });
    expect(status('a')).toMatchObject({ leaving: 0, exclusive: false });
    expect(engine.events).toEqual([
      ...['load b.gguf', 'pool b.gguf 1', 'close sessions a.gguf', 'close weights a.gguf'],
    ]);
  });

  test('when the new one fails, the old one serves on as if nothing had been asked', async () => {
    const { engine, runtime, submit, status, finishAll } = await loaded();
    engine.onPool = () => Promise.reject(new WavepoolError('MODEL_LOAD_FAILED', 'second clone'));
    const change = to({ path: 'b.gguf', slots: 1 });
    await expect(runtime.reconfigure('a', change, { strategy })).rejects.toEqual(
      failure('MODEL_LOAD_FAILED', 'second clone'),
    );
    expect(status('a')).toMatchObject({ state: 'ready', path: 'a.gguf', generation: 1 });
    const seen = submit('a');
    await finishAll();
    expect(seen.value).toBeDefined();
    expect(engine.events).toEqual(['load b.gguf', 'close weights b.gguf']);
  });

  test('a late one is freed when it comes', async () => {
    const { clock, engine, runtime, status } = await loaded(1, { loadTimeoutMs: 50 });
    const loading = gateFor('b.gguf');
    engine.onLoad = loading.wait;
    const change = watch(runtime.reconfigure('a', to({ path: 'b.gguf' }), { strategy }));
    await clock.advance(50);
    expect(change.error).toEqual(failure('MODEL_LOAD_TIMEOUT'));
    expect(status('a')).toMatchObject({ state: 'ready', path: 'a.gguf', leaving: 1 });
    loading.open();
    await turn();
    expect(status('a')).toMatchObject({ state: 'ready', path: 'a.gguf', leaving: 0 });
    expect(engine.live).toEqual({ weights: 1, sessions: 1 });
  });

  test('a model that is not loaded keeps its configuration when the new one fails', async () => {
    const { engine, register, runtime, status } = lifecycle();
    register('a');
    engine.onLoad = () => Promise.reject(new WavepoolError('INPUT_NOT_FOUND', 'b.gguf'));
    const change = to({ path: 'b.gguf' });
    await expect(runtime.reconfigure('a', change, { strategy })).rejects.toEqual(
      failure('INPUT_NOT_FOUND'),
    );
    expect(status('a')).toMatchObject({ state: 'unloaded', path: 'a.gguf', failure: null });
    engine.onLoad = () => Promise.resolve();
    expect(await runtime.reconfigure('a', change, { strategy })).toMatchObject({
      reconfigured: false,
    });
    expect(status('a')).toMatchObject({ state: 'ready', path: 'b.gguf' });
  });
});

describe('order', () => {
  test('a partial change is applied to the configuration of its turn, so two of them add up', async () => {
    const { runtime, submit, status, finishAll } = await loaded();
    const running = submit('a');
    await turn();
    const first = watch(runtime.reconfigure('a', to({ slots: 4 })));
    const second = watch(runtime.reconfigure('a', to({ maxBatch: 3 })));
    await turn();
    expect(status('a')).toMatchObject({ slots: 1, waitingManagers: 2 });
    await finishAll();
    expect([running.settled, first.settled, second.settled]).toEqual([true, true, true]);
    expect(runtime.entry('a').configuration).toMatchObject({ slots: 4, maxBatch: 3 });
  });

  test('its signal ends the wait for the model, and nothing that has begun', async () => {
    const { engine, runtime, submit, status, finishAll } = await loaded();
    submit('a');
    await turn();
    const waiting = new AbortController();
    const given = watch(runtime.reconfigure('a', to({ slots: 2 }), { signal: waiting.signal }));
    waiting.abort(new Error('never mind'));
    await turn();
    expect(given.error).toEqual(failure('CANCELLED', 'never mind'));
    expect(status('a').waitingManagers).toBe(0);
    await finishAll();
    const loading = gate();
    engine.onLoad = loading.wait;
    const begun = new AbortController();
    const change = watch(runtime.reconfigure('a', to({ slots: 2 }), { signal: begun.signal }));
    await turn();
    begun.abort();
    loading.open();
    await turn();
    expect(change.value).toMatchObject({ reconfigured: true });
  });
});

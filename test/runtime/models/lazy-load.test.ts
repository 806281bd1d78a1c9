/** §2.7: a request takes its slot, then waits for the one load; §6: its wait ends at once when it is not wanted. */
import { afterEach, describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { expectAllOver, gate, lifecycle } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import { failure, watch } from '../slots/slots-fixture.ts';

afterEach(expectAllOver);

describe('the first requests of a model', () => {
  test('load it once, holding their slots meanwhile, and run on what was published', async () => {
    const { engine, register, submit, status, finishAll } = lifecycle();
    register('a', { slots: 2 });
    const loading = gate();
    engine.onLoad = loading.wait;
    const seen = [submit('a'), submit('a'), submit('a')];
    await turn();
    expect(status('a')).toMatchObject({
      state: 'loading',
      loaded: false,
      maxParallelSlots: null,
      activeSlots: 2,
      queuedRequests: 1,
    });
    loading.open();
    await finishAll();
    expect(engine.events).toEqual(['load a.gguf', 'pool a.gguf 2']);
    expect(seen.map(({ value }) => value?.text)).toEqual(['0.1:16000', '1.1:32000', '0.2:48000']);
    expect(status('a')).toMatchObject({ state: 'ready', generation: 1 });
  });

  test('each try a load of their own when the first one fails', async () => {
    const { engine, register, submit, status, finishAll } = lifecycle();
    register('a', { slots: 2 });
    let loads = 0;
    engine.onLoad = () => {
      loads += 1;
      return loads === 1
        ? Promise.reject(new WavepoolError('INSUFFICIENT_MEMORY', 'once'))
        : turn();
    };
    const [first, second] = [submit('a'), submit('a')];
    await turn();
    await finishAll();
    expect(first.error).toEqual(failure('INSUFFICIENT_MEMORY', 'once'));
    expect(second.value?.text).toBe('1.1:32000');
    expect(loads).toBe(2);
    expect(status('a')).toMatchObject({ state: 'ready', failure: null, activeSlots: 0 });
  });

  test('a failed load leaves the model failed with its reason, and the next request loads again', async () => {
    const { engine, register, submit, status, finishAll } = lifecycle();
    register('a');
    engine.onPool = () => Promise.reject(new WavepoolError('MODEL_LOAD_FAILED', 'second clone'));
    const first = submit('a');
    await finishAll();
    expect(first.error).toEqual(failure('MODEL_LOAD_FAILED', 'second clone'));
    expect(status('a')).toMatchObject({
      state: 'failed',
      loaded: false,
      failure: { code: 'MODEL_LOAD_FAILED' },
      activeSlots: 0,
    });
    engine.onPool = () => Promise.resolve();
    const again = submit('a');
    await finishAll();
    expect(again.value?.text).toBe('0.1:32000');
  });

  test('one that is cancelled while the model loads leaves at once, and the load goes on', async () => {
    const { engine, register, submit, status, finishAll } = lifecycle();
    register('a');
    const loading = gate();
    engine.onLoad = loading.wait;
    const cancel = new AbortController();
    const seen = submit('a', { signal: cancel.signal });
    await turn();
    cancel.abort(new Error('the client has gone'));
    await turn();
    expect(seen.error).toEqual(failure('CANCELLED', 'the client has gone'));
    expect(status('a').batches).toMatchObject({ queuedItems: 0, runningItems: 0 });
    loading.open();
    await finishAll();
    expect(status('a')).toMatchObject({ state: 'ready', activeSlots: 0 });
    expect(engine.pools[0]?.runs).toEqual([]);
  });

  test('a load is no wait for a slot: the busy timeout does not end it', async () => {
    const { clock, engine, register, submit, finishAll } = lifecycle();
    register('a', { maxBatch: 2 });
    const loading = gate();
    engine.onLoad = loading.wait;
    const admitted = submit('a', { busyTimeoutMs: 50 });
    await turn();
    const behind = submit('a', { busyTimeoutMs: 50 });
    await clock.advance(60);
    expect(admitted.settled).toBe(false);
    expect(behind.error).toEqual(failure('BUSY_TIMEOUT'));
    loading.open();
    await finishAll();
    expect(admitted.value?.text).toBe('0.1:16000');
  });

  test('segments that come during a load share its first batch, as large as the loaded pool takes', async () => {
    const { engine, register, submit, finishAll } = lifecycle();
    register('a', { maxBatch: 4 });
    const loading = gate();
    engine.onLoad = loading.wait;
    const seen = [submit('a')];
    await turn();
    seen.push(submit('a'), submit('a'));
    loading.open();
    await finishAll();
    expect(engine.pools[0]?.runs.map(({ items }) => items.length)).toEqual([3]);
    expect(seen.every(({ value }) => value)).toBe(true);
  });

  test('a cold model serves what came before a manager, then the manager, then the rest', async () => {
    const { engine, register, runtime, submit, finishAll } = lifecycle();
    register('a', { maxBatch: 4 });
    const loading = gate();
    engine.onLoad = loading.wait;
    const before = [submit('a'), submit('a')];
    await turn();
    const unloading = watch(runtime.unload('a'));
    const after = submit('a');
    await turn();
    expect(unloading.settled).toBe(false);
    loading.open();
    await finishAll();
    expect(before.every(({ value }) => value)).toBe(true);
    expect([unloading.settled, after.value !== undefined]).toEqual([true, true]);
    expect(engine.events).toEqual([
      ...['load a.gguf', 'pool a.gguf 1', 'close sessions a.gguf', 'close weights a.gguf'],
      ...['load a.gguf', 'pool a.gguf 1'],
    ]);
  });
});

describe('the load timeout', () => {
  test('ends the wait of a request with a code of its own; the load finishes for the next one', async () => {
    const { clock, engine, register, submit, status, finishAll } = lifecycle();
    register('a', { loadTimeoutMs: 100 });
    const loading = gate();
    engine.onLoad = loading.wait;
    const late = submit('a');
    await clock.advance(100);
    expect(late.error).toEqual(failure('MODEL_LOAD_TIMEOUT', 'a took over 100 ms'));
    expect(status('a')).toMatchObject({ state: 'loading', activeSlots: 0 });
    loading.open();
    await turn();
    expect(status('a')).toMatchObject({ state: 'ready', generation: 1 });
    const next = submit('a');
    await finishAll();
    expect(next.value?.text).toBe('0.1:32000');
    expect(engine.events.filter((event) => event.startsWith('load'))).toHaveLength(1);
  });

  test('an unload abandons a load that nobody waits for: it is freed when it ends, never published', async () => {
    const { clock, engine, register, runtime, status, submit } = lifecycle({ loadTimeoutMs: 100 });
    register('a');
    const loading = gate();
    engine.onLoad = loading.wait;
    const late = submit('a');
    await clock.advance(100);
    await runtime.unload('a');
    expect(status('a')).toMatchObject({ state: 'unloaded', loaded: false, leaving: 1 });
    loading.open();
    await turn();
    expect(status('a')).toMatchObject({ state: 'unloaded', generation: 0, leaving: 0 });
    expect(engine.live).toEqual({ weights: 0, sessions: 0 });
    expect(late.error).toEqual(failure('MODEL_LOAD_TIMEOUT'));
  });

  test('a manager waits no longer either, and the model becomes ready by itself', async () => {
    const { clock, engine, register, runtime, status } = lifecycle({ loadTimeoutMs: 100 });
    register('a');
    const loading = gate();
    engine.onPool = loading.wait;
    const managed = watch(runtime.load('a'));
    await clock.advance(100);
    expect(managed.error).toEqual(failure('MODEL_LOAD_TIMEOUT'));
    expect(status('a')).toMatchObject({ state: 'loading', exclusive: false });
    loading.open();
    await turn();
    expect(status('a').state).toBe('ready');
  });
});

describe('prepare', () => {
  test('loads the model under a slot and gives a state that outlives its pool', async () => {
    const { engine, register, runtime, status } = lifecycle();
    const entry = register('vad');
    const { info, state } = await entry.prepare();
    expect(info).toMatchObject({ family: 'double', stateful: true });
    expect(state).toEqual({ kind: 'task-state' });
    expect(status('vad')).toMatchObject({ state: 'ready', activeSlots: 0 });
    await runtime.unload('vad');
    const again = await entry.prepare();
    expect(again.state).not.toBe(state);
    expect(engine.events.filter((event) => event.startsWith('load'))).toHaveLength(2);
  });

  test('a loaded model answers at once though its slots are busy; a waiting manager comes first', async () => {
    const { register, runtime, submit, finishAll } = lifecycle();
    const entry = register('a');
    const running = submit('a');
    await turn();
    expect(await entry.prepare()).toMatchObject({ info: { family: 'double' }, state: undefined });
    const unloading = watch(runtime.unload('a'));
    const prepared = watch(entry.prepare());
    await turn();
    expect([unloading.settled, prepared.settled]).toEqual([false, false]);
    await finishAll();
    expect([unloading.settled, prepared.settled]).toEqual([true, true]);
    expect(running.value).toBeDefined();
    expect(entry.generation).toBe(2);
  });

  test('it leaves the queue at once when it is cancelled', async () => {
    const { register, runtime, submit, status, finishAll } = lifecycle();
    const entry = register('a');
    await runtime.load('a');
    submit('a');
    await turn();
    const unloading = watch(runtime.unload('a'));
    const cancel = new AbortController();
    const prepared = watch(entry.prepare({ signal: cancel.signal }));
    await turn();
    expect(status('a')).toMatchObject({ queuedRequests: 1, waitingManagers: 1 });
    cancel.abort();
    expect(status('a').queuedRequests).toBe(0);
    await finishAll();
    expect(prepared.error).toEqual(failure('CANCELLED'));
    expect(unloading.settled).toBe(true);
  });
});

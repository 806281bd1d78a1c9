import { afterEach, describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { ModelStatus, RuntimeStatus } from '../../../src/core/worker/status.ts';
import type { ModelConfiguration } from '../../../src/runtime/models/model-configuration.ts';
import { Runtime } from '../../../src/runtime/runtime.ts';
import { segment } from '../batches/batcher-fixture.ts';
import { DoubleEngine } from '../engine-double.ts';
import { ManualClock, turn } from '../manual-clock.ts';
import { failure, watch } from '../slots/slots-fixture.ts';

const opened: { clock: ManualClock; runtime: Runtime }[] = [];

afterEach(async () => {
  for (const { clock, runtime } of opened.splice(0)) {
    await runtime.close();
    for (const model of runtime.snapshot().models) {
      expect(model).toMatchObject({ state: 'unloaded', loaded: false, activeSlots: 0 });
    }
    expect(clock.pending).toBe(0);
  }
});

function entry(overrides: Partial<ModelConfiguration> = {}) {
  const clock = new ManualClock();
  const engine = new DoubleEngine();
  const runtime = new Runtime(engine, clock);
  opened.push({ clock, runtime });
  const model = runtime.register('tiny', {
    path: 'tiny.gguf',
    mode: 'offline',
    slots: 2,
    threads: 1,
    maxBatch: 4,
    maxAudioSeconds: 120,
    maxWaitMs: 20,
    busyTimeoutMs: 300,
    ...overrides,
  });
  return { clock, engine, runtime, model };
}

/** A point that native work reaches and stays at until the test opens it. */
function gate() {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, wait: () => passed };
}

describe('loading', () => {
  test('an entry starts unloaded, with the null rules of the contract', () => {
    const { model } = entry();
    expect(ModelStatus.parse(model.snapshot())).toMatchObject({
      id: 'tiny',
      state: 'unloaded',
      generation: 0,
      failure: null,
      family: null,
      loaded: false,
      slots: 2,
      activeSlots: 0,
      queuedRequests: 0,
      maxParallelSlots: null,
      weightBytes: null,
      sessionBytes: null,
    });
    expect(() => model.model).toThrow(failure('MODEL_LOAD_FAILED', 'the model is unloaded'));
  });

  test('nothing is published before the pool is complete', async () => {
    const { engine, model } = entry();
    const building = gate();
    engine.onPool = building.wait;
    const loading = watch(model.load());
    await turn();
    expect(model.snapshot()).toMatchObject({
      state: 'loading',
      loaded: false,
      maxParallelSlots: null,
      exclusive: true,
    });
    building.open();
    await turn();
    expect(loading.settled).toBe(true);
    expect(ModelStatus.parse(model.snapshot())).toMatchObject({
      state: 'ready',
      generation: 1,
      family: 'double',
      task: 'asr',
      loaded: true,
      exclusive: false,
      slots: 2,
      maxParallelSlots: 8,
      weightBytes: 5_000,
      sessionBytes: [1_000, 1_000],
    });
  });

  test('two loads at once load once', async () => {
    const { engine, model } = entry();
    await Promise.all([model.load(), model.load()]);
    expect(engine.trace).toEqual(['load tiny.gguf']);
    expect(model.generation).toBe(1);
  });

  test('a load that fails leaves the reason, no residency, and can be tried again', async () => {
    const { engine, model } = entry();
    engine.onLoad = () => Promise.reject(new WavepoolError('MODEL_FILE_INVALID', 'tensor missing'));
    await expect(model.load()).rejects.toEqual(failure('MODEL_FILE_INVALID'));
    expect(ModelStatus.parse(model.snapshot())).toMatchObject({
      state: 'failed',
      failure: { code: 'MODEL_FILE_INVALID' },
      generation: 0,
      loaded: false,
      exclusive: false,
    });
    engine.onLoad = () => Promise.resolve();
    await model.load();
    expect(model.snapshot()).toMatchObject({ state: 'ready', failure: null, generation: 1 });
  });

  test('weights whose sessions could not be made are freed', async () => {
    const { engine, model } = entry();
    engine.onPool = () => Promise.reject(new WavepoolError('INSUFFICIENT_MEMORY', 'clone 1'));
    await expect(model.load()).rejects.toEqual(failure('INSUFFICIENT_MEMORY'));
    expect(engine.trace).toEqual(['load tiny.gguf', 'close weights']);
  });

  test('a segment that waits behind a load runs on what it published', async () => {
    const { engine, model } = entry();
    const building = gate();
    engine.onPool = building.wait;
    const loading = model.load();
    const seen = watch(model.submit(segment('A', 1)));
    await turn();
    expect(model.snapshot()).toMatchObject({ queuedRequests: 1, batches: { queuedItems: 1 } });
    building.open();
    await loading;
    await turn();
    expect(model.snapshot()).toMatchObject({ queuedRequests: 0, activeSlots: 1 });
    engine.pools[0]?.runs[0]?.finish();
    await turn();
    expect(seen.value?.text).toBe('0.1:16000');
  });

  test('a segment for a model that failed to load tries again and fails with its own reason', async () => {
    const { engine, model } = entry();
    engine.onLoad = () => Promise.reject(new WavepoolError('MODEL_FILE_INVALID', 'tensor missing'));
    await expect(model.load()).rejects.toThrow();
    await expect(model.submit(segment('A', 1))).rejects.toEqual(
      failure('MODEL_FILE_INVALID', 'tensor missing'),
    );
    expect(engine.trace).toEqual(['load tiny.gguf', 'load tiny.gguf']);
    expect(model.snapshot()).toMatchObject({ state: 'failed', activeSlots: 0 });
  });
});

describe('unloading', () => {
  test('earlier work ends first, sessions die before weights, a later segment loads again', async () => {
    const { engine, model } = entry();
    await model.load();
    const running = watch(model.submit(segment('A', 1)));
    await turn();
    const unloading = watch(model.unload());
    const later = watch(model.submit(segment('B', 2)));
    await turn();
    expect(model.snapshot()).toMatchObject({ state: 'ready', waitingManagers: 1, activeSlots: 1 });
    engine.pools[0]?.runs[0]?.finish();
    await turn();
    expect(running.value?.text).toBe('0.1:16000');
    expect(unloading.settled).toBe(true);
    const cycle = ['load tiny.gguf', 'close sessions', 'close weights', 'load tiny.gguf'];
    expect(engine.trace).toEqual(cycle);
    expect(model.snapshot()).toMatchObject({ state: 'ready', generation: 2 });
    engine.pools[1]?.runs[0]?.finish();
    await turn();
    expect(later.value?.text).toBe('0.1:32000');
  });

  test('residency ends when the unload begins, not when the memory is free', async () => {
    const { engine, model } = entry();
    await model.load();
    const closing = gate();
    engine.onPoolClose = closing.wait;
    const unloading = model.unload();
    await turn();
    expect(model.snapshot()).toMatchObject({
      state: 'unloading',
      loaded: false,
      maxParallelSlots: null,
      exclusive: true,
    });
    closing.open();
    await unloading;
    expect(model.snapshot()).toMatchObject({ state: 'unloaded', exclusive: false, generation: 1 });
  });

  test('it is idempotent, and a later load publishes the next generation', async () => {
    const { engine, model } = entry();
    await model.unload();
    await model.load();
    await model.unload();
    await model.unload();
    await model.load();
    expect(model.generation).toBe(2);
    expect(engine.trace.filter((line) => line.startsWith('load'))).toHaveLength(2);
  });

  test('a manager waits no longer than the busy timeout of the model', async () => {
    const { clock, engine, model } = entry();
    await model.load();
    const running = watch(model.submit(segment('A', 1)));
    await turn();
    const unloading = watch(model.unload());
    await clock.advance(300);
    expect(unloading.error).toEqual(failure('BUSY_TIMEOUT', 'unload of tiny'));
    engine.pools[0]?.runs[0]?.finish();
    await turn();
    expect(running.settled).toBe(true);
  });
});

test('a request cannot wait longer than the model allows', async () => {
  const { clock, engine, model } = entry({ slots: 1, busyTimeoutMs: 100 });
  await model.load();
  const running = watch(model.submit(segment('A', 1)));
  await turn();
  const queued = watch(model.submit(segment('B', 2), { busyTimeoutMs: 5_000 }));
  await clock.advance(100);
  expect(queued.error).toEqual(failure('BUSY_TIMEOUT'));
  engine.pools[0]?.runs[0]?.finish();
  await turn();
  expect(running.settled).toBe(true);
});

describe('the runtime', () => {
  test('an id is registered once and found by its name', () => {
    const { model, runtime } = entry();
    expect(runtime.entry('tiny')).toBe(model);
    expect(() => runtime.register('tiny', model.configuration)).toThrow(failure('INVALID_REQUEST'));
    expect(() => runtime.entry('huge')).toThrow(failure('MODEL_UNKNOWN', 'huge'));
    expect(() => runtime.register('other', { ...model.configuration, slots: 17 })).toThrow(
      failure('SLOTS_UNSUPPORTED'),
    );
    expect([...runtime.entries.keys()]).toEqual(['tiny']);
  });

  test('its snapshot is what the published schema says, for all models', async () => {
    const { model, runtime } = entry();
    runtime.register('other', model.configuration);
    await model.load();
    const status = RuntimeStatus.parse(runtime.snapshot());
    expect(status.build).toBe('double');
    expect(status.models.map(({ id, state }) => [id, state])).toEqual([
      ['tiny', 'ready'],
      ['other', 'unloaded'],
    ]);
  });

  test('closing waits for running work, frees every model and admits nothing more', async () => {
    const { engine, model, runtime } = entry();
    await model.load();
    const running = watch(model.submit(segment('A', 1)));
    await turn();
    const closing = watch(runtime.close());
    await turn();
    expect(closing.settled).toBe(false);
    engine.pools[0]?.runs[0]?.finish();
    await turn();
    expect([running.value?.text, closing.settled]).toEqual(['0.1:16000', true]);
    expect(engine.trace.slice(-2)).toEqual(['close sessions', 'close weights']);
    await expect(model.load()).rejects.toEqual(failure('SHUTTING_DOWN'));
    await expect(model.submit(segment('B', 2))).rejects.toEqual(failure('SHUTTING_DOWN'));
  });
});

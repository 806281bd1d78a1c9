/** Rows P5, L1–L3, L5–L9, L12, L14 and L16 over native code, on the fake family at 1, 2 and 4 slots. */
import { describe, expect, test } from 'vitest';
import { faults, TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { turn } from './manual-clock.ts';
import {
  allEnd,
  expectAtRest,
  GOOD,
  modelFile,
  nativeGate,
  nativeRuntime,
  reaches,
} from './native-lifecycle.ts';
import { failure, watch } from './slots/slots-fixture.ts';

const configured = (slots: number) => ({ slots, maxBatch: 1 });

describe.skipIf(!TEST_ADDON_BUILT).each([1, 2, 4])('on %i slots', (n) => {
  test('a cold wave publishes one pool, on which every request runs', async () => {
    const { runtime, register, decode, submitMany, status } = nativeRuntime();
    await decode();
    register('a', configured(n));
    const loading = nativeGate('load-gate');
    const running = nativeGate('gate');
    const wave = submitMany('a', n + 2, { calls: true });
    await turn();
    expect(status('a')).toMatchObject({ state: 'loading', activeSlots: n, queuedRequests: 2 });
    const ready = reaches(runtime, 'a', 'ready');
    loading.open();
    await ready;
    expect(status('a')).toMatchObject({ state: 'ready', activeSlots: n, generation: 1 });
    expect(faults().liveObjects()).toEqual({ weights: 1, sessions: n });
    running.open();
    await allEnd(wave);
    expect(wave.map(({ value }) => value)).toEqual(wave.map(() => GOOD));
    await expectAtRest(runtime, 'a', 'ready');
  });

  test('L1 running and queued work ends on the old configuration, whatever the manager brings', async () => {
    const { runtime, register, decode, submitMany, submit, status } = nativeRuntime();
    await decode();
    const short = modelFile('short', { maxSegmentSeconds: 0.5 });
    const entry = register('a', configured(n));
    await entry.load();
    for (const operation of ['unload', 'reconfigure'] as const) {
      const running = nativeGate('gate');
      const older = submitMany('a', n + 1);
      await turn();
      expect(status('a')).toMatchObject({ activeSlots: n, queuedRequests: 1 });
      const generation = entry.generation;
      const managing =
        operation === 'unload'
          ? runtime.unload('a')
          : runtime.reconfigure('a', (now) => ({ ...now, path: short }));
      const newer = watch(submit('a'));
      await turn();
      expect(status('a')).toMatchObject({ waitingManagers: 1, queuedRequests: 2, generation });
      running.open();
      await managing;
      expect(older.map(({ value }) => value)).toEqual(older.map(() => GOOD));
      await newer.ended;
      expect(entry.generation).toBe(generation + 1);
      if (operation === 'unload') expect(newer.value).toEqual(GOOD);
      else expect(newer.error).toEqual(failure('INPUT_TOO_LARGE'));
      await expectAtRest(runtime, 'a', 'ready');
    }
  });

  test('L2 of two replacements behind running work the last one is what stays', async () => {
    const { runtime, register, decode, submitMany, status } = nativeRuntime();
    await decode();
    register('a', configured(n));
    const [first, last] = [modelFile('first'), modelFile('last')];
    await runtime.load('a');
    const running = nativeGate('gate');
    const older = submitMany('a', n);
    await turn();
    const changes = [first, last].map((path) =>
      runtime.reconfigure('a', (now) => ({ ...now, path })),
    );
    await turn();
    expect(status('a').waitingManagers).toBe(2);
    running.open();
    await Promise.all(changes);
    expect(older.map(({ value }) => value)).toEqual(older.map(() => GOOD));
    expect(status('a')).toMatchObject({ path: last, generation: 3, state: 'ready' });
    expect(faults().liveObjects()).toEqual({ weights: 1, sessions: n });
  });

  test('L3 bulk unload frees an idle model while another one is held in its load', async () => {
    const { runtime, register, decode, submit, status } = nativeRuntime();
    await decode();
    register('idle', configured(n));
    register('slow', configured(n));
    await runtime.load('idle');
    const loading = nativeGate('load-gate');
    const cold = submit('slow');
    await turn();
    const freed = reaches(runtime, 'idle', 'unloaded');
    const bulk = watch(runtime.unloadMany('all'));
    await freed;
    expect(faults().liveObjects()).toEqual({ weights: 0, sessions: 0 });
    expect([status('slow').state, bulk.settled]).toEqual(['loading', false]);
    loading.open();
    expect(await cold).toEqual(GOOD);
    await bulk.ended;
    expect(bulk.value).toEqual({ unloaded: ['idle', 'slow'], notFound: [] });
    await expectAtRest(runtime, 'slow', 'unloaded');
  });

  test.each([1, 2])(
    'L5 with a limit of %i, a model that is still being destroyed counts no more',
    async (maxLoadedModels) => {
      const { runtime, register, status } = nativeRuntime({ maxLoadedModels });
      for (const id of ['retiring', 'keeper', 'incoming']) register(id, configured(n));
      await runtime.load('retiring');
      if (maxLoadedModels === 2) await runtime.load('keeper');
      const destroying = nativeGate('destroy-gate');
      const unloading = watch(runtime.unload('retiring'));
      await turn();
      expect(status('retiring')).toMatchObject({ state: 'unloading', loaded: false, leaving: 1 });
      await runtime.load('incoming');
      expect(status('incoming')).toMatchObject({ state: 'ready', generation: 1 });
      expect(status('keeper').loaded).toBe(maxLoadedModels === 2);
      expect(unloading.settled).toBe(false);
      destroying.open();
      await unloading.ended;
      await expectAtRest(runtime, 'retiring', 'unloaded');
    },
  );

  test('L6, L7 and L16 a stream keeps its slot and the old pool until it ends, fails or is dropped', async () => {
    const { runtime, register, status } = nativeRuntime();
    const entry = register('a', configured(n));
    const uses = {
      ends: () => Promise.resolve(),
      fails: () => Promise.reject(new Error('the client has gone')),
    };
    for (const [end, use] of Object.entries(uses)) {
      const generation = entry.generation;
      const other = modelFile(`${end}-next`);
      let change: Promise<unknown> | undefined;
      const streaming = async (): Promise<void> => {
        using stream = await entry.acquireStream();
        change = runtime.reconfigure('a', (now) => ({ ...now, path: other }));
        await turn();
        expect(status('a')).toMatchObject({ activeSlots: 1, waitingManagers: 1 });
        expect(status('a').path).not.toBe(other);
        expect(stream.generation).toBe(entry.generation);
        await use();
      };
      const ended = await streaming().then(
        () => 'ends',
        () => 'fails',
      );
      expect(ended).toBe(end);
      await change;
      expect(entry.generation).toBeGreaterThan(generation);
      await expectAtRest(runtime, 'a', 'ready');
    }
    (await entry.acquireStream()).release();
    await runtime.unload('a');
  });

  test('L9 an empty segment is refused without a lease, and the model serves on', async () => {
    const { runtime, register, decode, segment, submit } = nativeRuntime();
    await decode();
    const entry = register('a', configured(n));
    await entry.load();
    const whole = segment();
    const task = { ...whole.task, endSample: whole.task.startSample };
    await expect(entry.submit({ ...whole, task })).rejects.toEqual(failure('INVALID_REQUEST'));
    await expectAtRest(runtime, 'a', 'ready');
    expect(await submit('a')).toEqual(GOOD);
  });

  test('L12 a model in its first load is seen, is loaded once for two callers, and counts later', async () => {
    const { runtime, register, status } = nativeRuntime({ maxLoadedModels: 1 });
    const { configuration } = register('a', configured(n));
    const loading = nativeGate('load-gate');
    const first = watch(runtime.load('a'));
    await turn();
    expect(runtime.snapshot().models.map(({ state }) => state)).toEqual(['loading']);
    // Not by `register`, which would write the file anew that is being read.
    const again = () => runtime.register('a', configuration);
    expect(again).toThrow(failure('INVALID_REQUEST', 'registered already'));
    const second = watch(runtime.reconfigure('a', (now) => now));
    await turn();
    expect(status('a')).toMatchObject({ exclusive: true, waitingManagers: 1 });
    loading.open();
    await allEnd([first, second]);
    expect(status('a').generation).toBe(1);
    register('b', configured(n));
    await runtime.load('b');
    expect(runtime.snapshot().models.map(({ state }) => state)).toEqual(['unloaded', 'ready']);
  });

  test('L14 a warm model serves while another one is held in its load', async () => {
    const { runtime, register, decode, submit, status } = nativeRuntime({ maxLoadedModels: 2 });
    await decode();
    register('warm', configured(n));
    register('cold', configured(n));
    await runtime.load('warm');
    const loading = nativeGate('load-gate');
    const waiting = watch(submit('cold'));
    expect(await submit('warm')).toEqual(GOOD);
    expect(status('warm').generation).toBe(1);
    expect(waiting.settled).toBe(false);
    loading.open();
    await waiting.ended;
    expect(waiting.value).toEqual(GOOD);
  });

  test.each(['loading', 'running', 'reconfiguring', 'unloading'] as const)(
    'closing while a model is %s waits for native code and drops nothing silently',
    async (phase) => {
      const { runtime, register, decode, submit, submitMany } = nativeRuntime();
      await decode();
      const entry = register('a', configured(n));
      const other = modelFile('other');
      if (phase !== 'loading') await entry.load();
      const held = nativeGate(
        (
          {
            loading: 'load-gate',
            running: 'gate',
            reconfiguring: 'load-gate',
            unloading: 'destroy-gate',
          } as const
        )[phase],
      );
      if (phase === 'reconfiguring') void entry.reconfigure((now) => ({ ...now, path: other }));
      if (phase === 'unloading') void entry.unload();
      const accepted = submitMany('a', n);
      const queued = watch(submit('a'));
      await turn();
      const closing = watch(runtime.close({ drainMs: 600_000 }));
      await turn();
      expect([closing.settled, queued.settled]).toEqual([false, false]);
      held.open();
      await closing.ended;
      expect([...accepted, queued].map(({ value }) => value)).toEqual(
        [...accepted, queued].map(() => GOOD),
      );
    },
  );
});

describe.skipIf(!TEST_ADDON_BUILT)('native batches', () => {
  test('P5 four at once, each with results of its own session over one set of weights', async () => {
    const { runtime, register, decode, submitMany, status } = nativeRuntime();
    await decode();
    const entry = register('a', { slots: 4, maxBatch: 2 });
    await entry.load();
    const running = nativeGate('gate');
    const seen = submitMany('a', 8, { calls: true });
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: 4, batches: { runningItems: 8 } });
    expect(entry.tryAcquire()).toBeUndefined();
    expect(faults().liveObjects()).toEqual({ weights: 1, sessions: 4 });
    running.open();
    await allEnd(seen);
    const calls = seen.map(({ value }) => value?.text.split('#')[1]?.split('.'));
    const sessions = new Set(calls.map((call) => call?.[0]));
    expect(sessions.size).toBe(4);
    for (const session of sessions) {
      const own = calls.filter((call) => call?.[0] === session).map((call) => call?.[1]);
      expect(own.toSorted()).toEqual(['1', '2']);
    }
    await expectAtRest(runtime, 'a', 'ready');
  });

  test('L8 of two deferred batches, the end of one keeps the manager waiting for the other', async () => {
    const { runtime, register, decode, segment, status } = nativeRuntime();
    await decode();
    const entry = register('a', { slots: 2, maxBatch: 2 });
    const streams = [await entry.acquireStream(), await entry.acquireStream()];
    const unloading = watch(runtime.unload('a'));
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: 2, waitingManagers: 1 });
    for (const [index, stream] of streams.entries()) {
      const items = [segment().task, segment().task];
      const outcomes = await stream.pool.run(stream.slot, items).done;
      expect(outcomes.map(({ ok }) => ok)).toEqual([true, true]);
      expect(unloading.settled).toBe(false);
      stream.release();
      if (index === 0) {
        await turn();
        expect(status('a')).toMatchObject({ activeSlots: 1, waitingManagers: 1 });
      }
    }
    await unloading.ended;
    await expectAtRest(runtime, 'a', 'unloaded');
  });
});

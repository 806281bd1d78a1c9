/** Rows L10, L11, L15 and L19–L21 over native code: what fails leaves nothing behind and can be tried again. */
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ModelConfiguration } from '../../src/runtime/models/model-configuration.ts';
import { folder } from '../engine/engine-fixture.ts';
import { faults, TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { turn } from './manual-clock.ts';
import {
  allEnd,
  expectAtRest,
  GOOD,
  modelFile,
  nativeGate,
  nativeRuntime,
} from './native-lifecycle.ts';
import { failure, watch } from './slots/slots-fixture.ts';

const CLONE_FAULTS = ['second-clone', 'null-clone', 'clone-family', 'clone-task', 'clone-mode'];

describe.skipIf(!TEST_ADDON_BUILT)('L15 a load that fails', () => {
  test.each([
    ['load', 1, 'MODEL_LOAD_FAILED'],
    ['load', 4, 'MODEL_LOAD_FAILED'],
    ['null-primary', 1, 'INVALID_REQUEST'],
    ['clone', 2, 'MODEL_LOAD_FAILED'],
    ...CLONE_FAULTS.map((fault) => [fault, 4, 'MODEL_LOAD_FAILED'] as const),
  ] as const)(
    'at "%s" on %i slots publishes nothing and succeeds when tried again',
    async (fault, slots, code) => {
      const { runtime, register, decode, submit, status } = nativeRuntime();
      await decode();
      register('a', { slots });
      faults().setFault(fault, true);
      await expect(submit('a')).rejects.toEqual(failure(code));
      await expectAtRest(runtime, 'a', 'failed');
      expect(status('a')).toMatchObject({ failure: { code }, generation: 0 });
      expect(faults().liveObjects()).toEqual({ weights: 0, sessions: 0 });
      faults().clearFaults();
      expect(await submit('a')).toEqual(GOOD);
      expect(faults().liveObjects()).toEqual({ weights: 1, sessions: slots });
    },
  );

  test('half-way through its clones destroys its sessions before the weights', async () => {
    const { runtime, register } = nativeRuntime();
    register('a', { slots: 4 });
    faults().setFault('second-clone', true);
    const cloning = nativeGate('clone-gate');
    const destroying = nativeGate('destroy-gate');
    const loading = watch(runtime.load('a'));
    await expect.poll(faults().liveObjects).toEqual({ weights: 1, sessions: 1 });
    cloning.open();
    // The primary, its clone and what was to be the second one are all held in their ends or behind them.
    await expect.poll(faults().liveObjects).toEqual({ weights: 1, sessions: 3 });
    expect(loading.settled).toBe(false);
    destroying.open();
    await loading.ended;
    expect(loading.error).toEqual(failure('MODEL_LOAD_FAILED', 'second clone'));
    expect(faults().liveObjects()).toEqual({ weights: 0, sessions: 0 });
  });

  test.each([2, 4])('is tried again by each admitted request on %i slots', async (slots) => {
    const { runtime, register, decode, submitMany, status } = nativeRuntime();
    await decode();
    register('a', { slots });
    faults().setFault('load', true);
    const seen = submitMany('a', slots);
    await allEnd(seen);
    expect(seen.map(({ error }) => error)).toEqual(seen.map(() => failure('MODEL_LOAD_FAILED')));
    await expectAtRest(runtime, 'a', 'failed');
    faults().clearFaults();
    const again = submitMany('a', slots);
    await allEnd(again);
    expect(again.map(({ value }) => value)).toEqual(again.map(() => GOOD));
    expect(status('a').generation).toBe(1);
  });
});

describe.skipIf(!TEST_ADDON_BUILT).each([1, 2, 4])('on %i slots', (slots) => {
  test.each(['prepare', 'run'] as const)(
    'L10 and L15 an item that fails at "%s" fails alone; its slot serves the next one',
    async (fault) => {
      const { runtime, register, decode, submit, submitMany } = nativeRuntime();
      await decode();
      register('a', { slots, maxBatch: 2 });
      const bad = watch(submit('a', { fault }));
      const good = submitMany('a', slots + 1);
      await allEnd([bad, ...good]);
      expect(bad.error).toEqual(failure(fault === 'prepare' ? 'INVALID_REQUEST' : 'INTERNAL'));
      expect(good.map(({ value }) => value)).toEqual(good.map(() => GOOD));
      await expectAtRest(runtime, 'a', 'ready');
    },
  );

  test('an item that is cancelled while it is prepared ends, and its slot is free again', async () => {
    const { runtime, register, decode, submit } = nativeRuntime();
    await decode();
    register('a', { slots });
    await runtime.load('a');
    nativeGate('prepare-gate');
    const cancel = new AbortController();
    const held = watch(submit('a', {}, { signal: cancel.signal }));
    await turn();
    cancel.abort();
    await held.ended;
    expect(held.error).toEqual(failure('CANCELLED'));
    await expectAtRest(runtime, 'a', 'ready');
    faults().clearFaults();
    expect(await submit('a')).toEqual(GOOD);
  });

  test('L15 a replacement that fails to load leaves the new configuration, which serves once it loads', async () => {
    const { runtime, register, decode, submit, status } = nativeRuntime();
    await decode();
    register('a', { slots });
    await runtime.load('a');
    const next = modelFile('next', { maxSegmentSeconds: 0.5 });
    const change = (now: ModelConfiguration) => ({ ...now, path: next, slots: 1 });
    faults().setFault('load', true);
    await expect(runtime.reconfigure('a', change)).rejects.toEqual(failure('MODEL_LOAD_FAILED'));
    expect(status('a')).toMatchObject({ state: 'failed', path: next, slots: 1 });
    expect(faults().liveObjects()).toEqual({ weights: 0, sessions: 0 });
    faults().clearFaults();
    await expect(submit('a')).rejects.toEqual(failure('INPUT_TOO_LARGE'));
    await expectAtRest(runtime, 'a', 'ready');
  });

  test('load-first keeps the old pool when the new one fails, and replaces it when it does not', async () => {
    const { runtime, register, decode, submit, status } = nativeRuntime();
    await decode();
    register('a', { slots });
    await runtime.load('a');
    const next = modelFile('next');
    const change = (now: ModelConfiguration) => ({ ...now, path: next });
    faults().setFault('load', true);
    const options = { strategy: 'load-first' } as const;
    await expect(runtime.reconfigure('a', change, options)).rejects.toEqual(
      failure('MODEL_LOAD_FAILED'),
    );
    expect(status('a')).toMatchObject({ state: 'ready', generation: 1 });
    expect(await submit('a')).toEqual(GOOD);
    faults().clearFaults();
    await runtime.reconfigure('a', change, options);
    expect(status('a')).toMatchObject({ state: 'ready', generation: 2, path: next });
    expect(faults().liveObjects()).toEqual({ weights: 1, sessions: slots });
    expect(await submit('a')).toEqual(GOOD);
  });

  test.each([
    ['the live pool', {}, 5, 4],
    ['other weights', { path: 'other' }, 5, 4],
    ['an option that forbids it', { threads: 9 }, 2, 1],
  ] as const)(
    'L19 more slots than %s supports are refused with everything kept',
    async (_, changes, count, capacity) => {
      const { runtime, register, decode, submit, status } = nativeRuntime();
      await decode();
      const entry = register('a', { slots });
      await entry.load();
      const other = modelFile('other');
      const change = (now: ModelConfiguration): ModelConfiguration => ({
        ...now,
        ...changes,
        path: 'path' in changes ? other : now.path,
        slots: count,
      });
      const model = entry.model;
      const before = { ...status('a'), idleMs: 0 };
      const refused = failure('SLOTS_UNSUPPORTED', `supports ${capacity}`);
      await expect(runtime.reconfigure('a', change)).rejects.toEqual(refused);
      expect({ ...status('a'), idleMs: 0 }).toEqual(before);
      expect(entry.model).toBe(model);
      expect(faults().liveObjects()).toEqual({ weights: 1, sessions: slots });
      expect(await submit('a')).toEqual(GOOD);
      await runtime.reconfigure('a', (now) => ({ ...now, slots: 3 }));
      expect(status('a')).toMatchObject({ slots: 3, maxParallelSlots: 4 });
      expect(await submit('a')).toEqual(GOOD);
    },
  );

  test.each([null, true, '2', 1.5, 17])('L21 a slot count of %j is refused', async (count) => {
    const { runtime, register, status } = nativeRuntime();
    register('a', { slots });
    await runtime.load('a');
    // A caller without types may send anything.
    const bad = { slots: count } as unknown as ModelConfiguration;
    await expect(runtime.reconfigure('a', (now) => ({ ...now, ...bad }))).rejects.toEqual(
      failure('SLOTS_UNSUPPORTED'),
    );
    expect(status('a')).toMatchObject({ state: 'ready', slots, generation: 1 });
  });

  test('L11 a replacement whose file is missing or damaged is refused before the old pool goes', async () => {
    const { runtime, register, decode, submit, status } = nativeRuntime();
    await decode();
    register('a', { slots });
    await runtime.load('a');
    const missing = path.join(folder, 'missing.gguf');
    for (const options of [{ strategy: 'load-first' } as const, {}]) {
      const change = (now: ModelConfiguration) => ({ ...now, path: missing, slots: 2 });
      await expect(runtime.reconfigure('a', change, options)).rejects.toEqual(
        failure('INPUT_NOT_FOUND'),
      );
      expect(status('a')).toMatchObject({ state: 'ready', generation: 1, slots });
      expect(await submit('a')).toEqual(GOOD);
    }
  });
});

describe.skipIf(!TEST_ADDON_BUILT)('resizing', () => {
  test('L20 the status follows 1, 2, 1, 4, 1, and each size serves', async () => {
    const { runtime, register, decode, submitMany, status } = nativeRuntime();
    await decode();
    register('a');
    for (const slots of [1, 2, 1, 4, 1]) {
      await runtime.reconfigure('a', (now) => ({ ...now, slots }));
      expect(status('a')).toMatchObject({ slots, state: 'ready', maxParallelSlots: 4 });
      const seen = submitMany('a', slots + 1);
      await allEnd(seen);
      expect(seen.map(({ value }) => value)).toEqual(seen.map(() => GOOD));
      expect(faults().liveObjects()).toEqual({ weights: 1, sessions: slots });
    }
  });

  test('weights outlive the sessions that use them', async () => {
    const { runtime, register, status } = nativeRuntime();
    register('a', { slots: 2 });
    await runtime.load('a');
    const destroying = nativeGate('destroy-gate');
    const unloading = watch(runtime.unload('a'));
    await turn();
    expect(status('a')).toMatchObject({ loaded: false, leaving: 1 });
    expect(faults().liveObjects().weights).toBe(1);
    destroying.open();
    await unloading.ended;
    expect(faults().liveObjects()).toEqual({ weights: 0, sessions: 0 });
  });
});

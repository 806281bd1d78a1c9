import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ControlCommandInput } from '../../../src/core/worker/control.ts';
import { NativeEngine } from '../../../src/engine/native-engine.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { FleetControl, type SendOptions } from '../../../src/queue/fleet/control.ts';
import { readPresence } from '../../../src/queue/fleet/presence.ts';
import { writeFakeModel, writeWav } from '../../engine/fake-model.ts';
import { TEST_ADDON, TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { FakeWorker, type FakeWorkerOptions, installFake } from '../../support/fake-worker.ts';
import { HeldEngine } from '../../support/held-engine.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';

let redis: TestRedis;
let control: FleetControl;

beforeAll(async () => {
  redis = await startRedis();
  control = new FleetControl({ address: redis.address, connection: await redis.connection() });
});
afterAll(async () => {
  await redis[Symbol.asyncDispose]();
});

type StartOptions = Omit<FakeWorkerOptions, 'address' | 'folder' | 'engine'>;

async function start(options: StartOptions): Promise<FakeWorker & { readonly engine: HeldEngine }> {
  const engine = new HeldEngine(new NativeEngine({ addon: TEST_ADDON }));
  const { address, dataDir: folder } = redis;
  const worker = await FakeWorker.start({ address, folder, engine, ...options });
  return Object.assign(worker, { engine });
}

/** Sends a command to the only worker and tells what it did. */
async function tell(command: ControlCommandInput, options?: SendOptions) {
  const [outcome, ...more] = await control.send(command, options);
  expect(more).toEqual([]);
  if (outcome === undefined) throw new Error('nobody answered');
  return outcome;
}

function openQueue(model: string): Promise<AudioQueue> {
  return AudioQueue.open({ address: redis.address, model });
}

/** Whole windows of the fake detector, all of them speech. */
const SECONDS = 1.024;

function recording(seed: number): string {
  return writeWav(join(redis.dataDir, `${seed}.wav`), SECONDS, seed);
}

/** Adds jobs of one segment each. */
function addJobs(queue: AudioQueue, seeds: readonly number[]): Promise<string[]> {
  return Promise.all(
    seeds.map((seed) => queue.add({ input: { kind: 'path', path: recording(seed) } })),
  );
}

async function waiting(worker: FakeWorker, model: string, segments: number): Promise<void> {
  await worker.model(model, ({ queuedRequests }) => queuedRequests === segments);
}

describe.skipIf(!TEST_ADDON_BUILT)('a worker', { timeout: 30_000 }, () => {
  test('unloads a model, and the next job loads it again', async () => {
    await using worker = await start({ models: { a: {}, b: {} } });
    await using queue = await openQueue('a');

    expect(await tell({ operation: 'unload', model: 'a' })).toMatchObject({
      ok: true,
      worker: worker.worker.id,
      models: [{ id: 'a', state: 'unloaded', loaded: false, generation: 1 }],
    });
    const [id = ''] = await addJobs(queue, [1]);
    expect(await queue.waitFor(id)).toMatchObject({ segments: 1 });
    await worker.model('a', ({ loaded, generation }) => loaded && generation === 2);
    expect(await tell({ operation: 'load', model: 'a' })).toMatchObject({
      models: [{ state: 'ready', loaded: true, reconfigured: false, generation: 2 }],
    });
  });

  test('loads nothing at its start when it is lazy', async () => {
    await using worker = await start({ models: { a: {} }, settings: { lazy: true } });
    await using queue = await openQueue('a');
    await worker.model('a', ({ state, loaded }) => state === 'unloaded' && !loaded);
    const [id = ''] = await addJobs(queue, [2]);
    await queue.waitFor(id);
    await worker.model('a', ({ loaded, generation }) => loaded && generation === 1);
  });

  test('ends older jobs on the old configuration and begins newer ones on the new', async () => {
    await using worker = await start({ models: { a: {} }, batch: 4 });
    await using queue = await openQueue('a');
    worker.engine.runs.close();
    const older = await addJobs(queue, [10]);
    await worker.model('a', ({ activeSlots }) => activeSlots === 1);
    older.push(...(await addJobs(queue, [11, 12, 13])));
    await waiting(worker, 'a', 3);

    const reconfigured = tell({ operation: 'reconfigure', model: 'a', settings: { batch: 1 } });
    await worker.model('a', ({ waitingManagers }) => waitingManagers === 1);
    const newer = await addJobs(queue, [14, 15]);
    await waiting(worker, 'a', 5);
    worker.engine.runs.open();

    expect(await reconfigured).toMatchObject({ ok: true, models: [{ reconfigured: true }] });
    for (const id of [...older, ...newer]) await queue.waitFor(id);
    const { batches, generation } = await worker.model(
      'a',
      (model) => model.batches.completedItems === 6,
    );
    // One alone, the other old ones together, the new ones alone.
    expect(batches.batchSizes).toEqual([3, 0, 1]);
    expect(generation).toBe(2);
    expect(worker.latest?.models).toEqual([{ id: 'a', slots: 1, batch: 1 }]);
  });

  test('obeys in the order in which it was told, however long the model is held', async () => {
    await using worker = await start({ models: { a: {} } });
    await using queue = await openQueue('a');
    worker.engine.runs.close();
    const [id = ''] = await addJobs(queue, [20]);
    await worker.model('a', ({ activeSlots }) => activeSlots === 1);
    const ended: string[] = [];
    const told = [2, 3].map(async (batch, at) => {
      await worker.model('a', ({ waitingManagers }) => waitingManagers === at);
      await tell({ operation: 'reconfigure', model: 'a', settings: { batch } });
      ended.push(`batch ${batch}`);
    });
    const last = (async () => {
      await worker.model('a', ({ waitingManagers }) => waitingManagers === 2);
      await tell({ operation: 'unload', model: 'a' });
      ended.push('unload');
    })();
    await worker.model('a', ({ waitingManagers }) => waitingManagers === 3);
    expect(ended).toEqual([]);
    worker.engine.runs.open();
    await Promise.all([...told, last]);
    await queue.waitFor(id);
    expect(await worker.model('a', ({ state }) => state === 'unloaded')).toMatchObject({
      waitingManagers: 0,
      activeSlots: 0,
      generation: 3,
    });
    expect(worker.latest?.models).toEqual([{ id: 'a', slots: 1, batch: 3 }]);
  });

  test('merges settings, or replaces them by those that it was started with', async () => {
    await using worker = await start({ models: { a: {} }, batch: 4 });
    const reconfigure = (settings: object, replace = false) =>
      tell({ operation: 'reconfigure', model: 'a', settings, replace });
    await reconfigure({ batch: 2 });
    await reconfigure({ threads: 2 });
    await worker.model('a', ({ generation }) => generation === 3);
    expect(worker.latest?.models).toEqual([{ id: 'a', slots: 1, batch: 2 }]);
    await reconfigure({ busyTimeoutMs: 5 }, true);
    await worker.model('a', ({ generation }) => generation === 4);
    expect(worker.latest?.models).toEqual([{ id: 'a', slots: 1, batch: 4 }]);
    // The new busy timeout needs no other pool.
    expect(await reconfigure({ busyTimeoutMs: 6 })).toMatchObject({
      models: [{ reconfigured: false, generation: 4 }],
    });
  });

  test('refuses slots without evidence, and keeps what works', async () => {
    await using worker = await start({ models: { a: {} } });
    const refused = await tell({ operation: 'reconfigure', model: 'a', settings: { slots: 2 } });
    expect(refused).toMatchObject({ ok: false, error: { code: 'CAPACITY_UNVALIDATED' } });
    expect(await worker.model('a', () => true)).toMatchObject({
      state: 'ready',
      slots: 1,
      generation: 1,
      waitingManagers: 0,
    });
  });

  test('takes as many slots without evidence as it was started to take, and as the family has', async () => {
    const settings = { unvalidatedSlots: 8 };
    await using worker = await start({ models: { a: { capacity: 4 } }, settings });
    await using queue = await openQueue('a');
    const slots = (count: number) =>
      tell({ operation: 'reconfigure', model: 'a', settings: { slots: count } });
    expect(await slots(2)).toMatchObject({ ok: true });
    await worker.model('a', (model) => model.slots === 2);
    expect(await slots(9)).toMatchObject({ ok: false, error: { code: 'CAPACITY_UNVALIDATED' } });
    expect(await slots(5)).toMatchObject({ ok: false, error: { code: 'SLOTS_UNSUPPORTED' } });
    expect(await worker.model('a', () => true)).toMatchObject({ slots: 2, generation: 2 });
    expect(worker.latest).toMatchObject({
      unvalidatedSlots: 8,
      models: [{ id: 'a', slots: 2, batch: 4 }],
    });
    // Both slots are used, and both batches of four with their look-ahead are taken from the queue.
    worker.engine.runs.close();
    const ids = await addJobs(queue, [...Array(12).keys()]);
    await worker.model('a', ({ activeSlots }) => activeSlots === 2);
    worker.engine.runs.open();
    for (const id of ids) await queue.waitFor(id);
  });

  test('frees many models, idle ones first, and tells which it does not have', async () => {
    await using worker = await start({ models: { a: {}, b: {}, c: {} } });
    await using queue = await openQueue('a');
    worker.engine.runs.close();
    const [id = ''] = await addJobs(queue, [30]);
    await worker.model('a', ({ activeSlots }) => activeSlots === 1);
    const models = ['a', 'x', 'c', 'a'];
    const freed = tell({ operation: 'unload-many', models });
    await worker.model('c', ({ loaded }) => !loaded);
    await worker.model('a', ({ loaded, waitingManagers }) => loaded && waitingManagers === 1);
    worker.engine.runs.open();
    await queue.waitFor(id);
    expect(await freed).toMatchObject({
      models: [
        { id: 'c', state: 'unloaded' },
        { id: 'a', state: 'unloaded' },
      ],
      notFound: ['x'],
    });
    await worker.model('b', ({ loaded }) => loaded);
    expect(await tell({ operation: 'unload-many', models: 'all' })).toMatchObject({
      models: expect.arrayContaining([expect.objectContaining({ id: 'b', loaded: false })]),
      notFound: [],
    });
  });

  test('lets a command go whose sender no longer waits', async () => {
    await using worker = await start({ models: { a: {} } });
    await using queue = await openQueue('a');
    worker.engine.runs.close();
    const [id = ''] = await addJobs(queue, [40]);
    await worker.model('a', ({ activeSlots }) => activeSlots === 1);
    const leave = new AbortController();
    const told = tell({ operation: 'unload', model: 'a' }, { signal: leave.signal });
    await worker.model('a', ({ waitingManagers }) => waitingManagers === 1);
    leave.abort(new Error('no longer'));
    await expect(told).rejects.toThrow('no longer');
    await worker.model('a', ({ waitingManagers }) => waitingManagers === 0);
    worker.engine.runs.open();
    await queue.waitFor(id);
    expect(await worker.model('a', () => true)).toMatchObject({ loaded: true, generation: 1 });
  });

  test('registers a model of its models directory, and serves its queue from then on', async () => {
    const modelsDir = join(redis.dataDir, 'models');
    await using worker = await start({ models: { a: {} }, settings: { modelsDir } });
    await using queue = await openQueue('moonshine-tiny');
    const [id = ''] = await addJobs(queue, [50]);
    expect(await tell({ operation: 'load', model: 'moonshine-tiny' })).toMatchObject({
      ok: false,
      error: { code: 'MODEL_UNKNOWN', message: expect.stringContaining('wavepool models pull') },
    });
    expect(await tell({ operation: 'load', model: 'no-model' })).toMatchObject({
      error: { code: 'MODEL_UNKNOWN' },
    });
    await installFake(modelsDir, 'moonshine-tiny');
    expect(
      await tell({ operation: 'load', model: 'moonshine-tiny', settings: { batch: 2 } }),
    ).toMatchObject({ ok: true, models: [{ id: 'moonshine-tiny', state: 'ready' }] });
    await queue.waitFor(id);
    const [presence] = await readPresence(await redis.connection());
    expect(presence).toMatchObject({ id: worker.worker.id });
    await worker.model('moonshine-tiny', () => worker.latest?.models.length === 2);
    expect(worker.latest?.models).toContainEqual({ id: 'moonshine-tiny', slots: 1, batch: 2 });
  });

  test('evicts the model that was used least recently when one more is loaded than may be', async () => {
    const settings = { maxLoadedModels: 1 };
    await using worker = await start({ models: { a: {}, b: {} }, settings });
    await using queue = await openQueue('b');
    await worker.model('b', ({ loaded }) => !loaded);
    const [id = ''] = await addJobs(queue, [60]);
    await queue.waitFor(id);
    await worker.model('b', ({ loaded }) => loaded);
    await worker.model('a', ({ loaded }) => !loaded);
  });

  test('serves its detector, too, when it is one of the models that it was started with', async () => {
    const path = writeFakeModel(join(redis.dataDir, 'own-vad.gguf'), { architecture: 'fake-vad' });
    const served = { id: 'own-vad', path, slots: 1, batch: 2, threads: 1 };
    await using worker = await start({
      models: { a: {} },
      settings: { models: [served], detector: { id: 'own-vad', path } },
    });
    expect(worker.latest?.models).toEqual([{ id: 'own-vad', slots: 1, batch: 2 }]);
    expect(worker.latest?.runtime.models.map(({ id }) => id)).toEqual(['own-vad']);
    expect(await tell({ operation: 'unload', model: 'own-vad' })).toMatchObject({ ok: true });
  });
});

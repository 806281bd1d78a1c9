import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ModelChange } from '../../../src/core/http/events.ts';
import { NativeEngine } from '../../../src/engine/native-engine.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { writeWav } from '../../engine/fake-model.ts';
import { faults, TEST_ADDON, TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { FakeWorker } from '../../support/fake-worker.ts';
import { HeldEngine } from '../../support/held-engine.ts';
import { startTestServer, TEST_MODEL } from '../../support/http.ts';
import { readSse, type SseEvent } from '../../support/sse.ts';

function changeOf({ data: { data } }: SseEvent): ModelChange {
  return ModelChange.parse(data);
}

function modelOf({ data: { model } }: SseEvent): unknown {
  return model;
}

describe.skipIf(!TEST_ADDON_BUILT)('a reader of events', { timeout: 30_000 }, () => {
  test('hears of the states of a model as they change, and of its slots', async () => {
    await using server = await startTestServer();
    const { address, dataDir: folder } = server.redis;
    const engine = new HeldEngine(new NativeEngine({ addon: TEST_ADDON }));
    const models = { [TEST_MODEL]: {}, other: {} };
    await using worker = await FakeWorker.start({ address, folder, models, engine });
    using all = await readSse(`${server.url}/v1/events?types=model.*`);
    using one = await readSse(`${server.url}/v1/events?model=${TEST_MODEL}&types=model.*,slot.*`);

    await server.post('/v1/models/other/unload', {});
    await server.post(`/v1/models/${TEST_MODEL}/unload`, {});
    await server.post(`/v1/models/${TEST_MODEL}/load`, {});
    const isReady = (event: SseEvent): boolean =>
      modelOf(event) === TEST_MODEL && changeOf(event).state === 'ready';
    const heard = await one.until(isReady);
    expect(new Set(heard.map(({ type }) => type))).toEqual(new Set(['model.changed']));
    const told = heard.map(changeOf);
    expect(
      told.map(({ state }) => state).filter((state, at, list) => state !== list[at - 1]),
    ).toEqual(['unloading', 'unloaded', 'loading', 'ready']);
    expect(told.at(-1)).toMatchObject({
      worker: worker.worker.id,
      pid: process.pid,
      generation: 2,
      loaded: true,
      failure: null,
    });
    const ofBoth = await all.until(isReady);
    expect(new Set(ofBoth.map(modelOf))).toEqual(new Set(['other', TEST_MODEL]));

    engine.runs.close();
    await using queue = await AudioQueue.open({ address, model: TEST_MODEL });
    const path = writeWav(join(folder, '1.wav'), 1.024, 1);
    const id = await queue.add({ input: { kind: 'path', path } });
    const [slots] = (await one.until(({ type }) => type === 'slot.changed'))
      .slice(-1)
      .map(changeOf);
    expect(slots).toMatchObject({ activeSlots: 1, slots: 1, generation: 2 });
    engine.runs.open();
    await queue.waitFor(id);
  });

  test('finds a model failed, with the reason, when its load failed', async () => {
    await using server = await startTestServer();
    const { address, dataDir: folder } = server.redis;
    await using worker = await FakeWorker.start({
      address,
      folder,
      models: { [TEST_MODEL]: { capacity: 2 } },
      settings: { unvalidatedSlots: 2, lazy: true },
    });
    faults().setFault('load', true);
    onTestFinished(() => faults().clearFaults());
    using events = await readSse(`${server.url}/v1/events?types=model.*`);
    const response = await server.post(`/v1/models/${TEST_MODEL}/load`, {});
    expect(response.status).toBe(500);
    expect(await response.json()).toMatchObject({ code: 'MODEL_LOAD_FAILED' });
    const failed = await events.until((event) => changeOf(event).state === 'failed');
    expect(failed.slice(-1).map(changeOf)).toMatchObject([
      { loaded: false, generation: 0, failure: { code: 'MODEL_LOAD_FAILED' } },
    ]);
    await worker.model(TEST_MODEL, ({ state }) => state === 'failed');
    faults().clearFaults();
    const corrected = { settings: { slots: 2 } };
    const again = await server.post(`/v1/models/${TEST_MODEL}/reconfigure`, corrected);
    expect(again.status).toBe(200);
    await worker.model(TEST_MODEL, ({ state, slots }) => state === 'ready' && slots === 2);
  });
});

import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { NewJob } from '../../../src/core/job/job.ts';
import { asTranscript } from '../../../src/core/results/job-result.ts';
import { NativeEngine } from '../../../src/engine/native-engine.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { bullKey, partQueueOf } from '../../../src/queue/redis/queue-names.ts';
import { LocalResultStore } from '../../../src/storage/local-result-store.ts';
import { writeFakeModel } from '../../engine/fake-model.ts';
import { TEST_ADDON, TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { FakeWorker } from '../../support/fake-worker.ts';
import { HeldEngine } from '../../support/held-engine.ts';
import { pcm16, wavOf } from '../../support/live-client.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { sound } from '../live/live-fixture.ts';

const MODEL = 'asr';
const OPTIONS = { vad: { targetSegmentMs: 0 } };
/** 320 seconds; whole windows of the fake detector. */
const SCRIPT = '.sssssss...ssss.....'.repeat(16);

interface Held extends FakeWorker {
  readonly engine: HeldEngine;
}

let redis: TestRedis;
let queue: AudioQueue;
let results: LocalResultStore;
let workers: Held[];
beforeEach(async () => {
  redis = await startRedis();
  workers = [];
  queue = await AudioQueue.open({ address: redis.address, model: MODEL });
  results = await LocalResultStore.open(join(redis.dataDir, 'results'));
  await writeFile(join(redis.dataDir, 'long.wav'), wavOf(pcm16(sound(SCRIPT))));
});
afterEach(async () => {
  for (const { engine } of workers) engine.openGates();
  await Promise.all(workers.map((worker) => worker[Symbol.asyncDispose]()));
  await queue.close();
  await redis[Symbol.asyncDispose]();
});

async function start(): Promise<Held> {
  const engine = new HeldEngine(new NativeEngine({ addon: TEST_ADDON }));
  const { address, dataDir: folder } = redis;
  const path = writeFakeModel(join(folder, 'long-vad.gguf'), {
    architecture: 'fake-vad',
    maxSegmentSeconds: 0,
  });
  const detector = { id: 'fake-vad', path };
  const models = { [MODEL]: { maxSegmentSeconds: 10 } };
  const worker = await FakeWorker.start({
    address,
    folder,
    engine,
    models,
    settings: { detector },
  });
  const held = Object.assign(worker, { engine });
  workers.push(held);
  return held;
}

function addJob(changes: Partial<NewJob> = {}, name = 'long.wav'): Promise<string> {
  const path = join(redis.dataDir, name);
  return queue.add({ input: { kind: 'path', path }, options: OPTIONS, ...changes } as NewJob);
}

/** What does not depend on the run. */
async function transcriptOf(id: string) {
  const { resultKey } = await queue.waitFor(id);
  const {
    jobId: _,
    timings: __,
    createdAt: ___,
    ...same
  } = asTranscript(await results.read(resultKey));
  return same;
}

async function partKeys(): Promise<string[]> {
  const connection = await redis.connection();
  const parts = partQueueOf(MODEL);
  const keys = await connection.keys(bullKey(connection, parts, '*~*'));
  return [...keys, ...(await connection.keys('wavepool-parts:*'))];
}

function recognized(worker: FakeWorker): number {
  const model = worker.latest?.runtime.models.find(({ id }) => id === MODEL);
  return model?.batches.completedItems ?? 0;
}

describe.skipIf(!TEST_ADDON_BUILT)('a split job', () => {
  test('is done by all workers, and gives what one gives', async () => {
    const [first, second] = [await start(), await start()];
    const whole = await transcriptOf(await addJob());
    const before = recognized(first) + recognized(second);
    expect(whole.segments.length).toBe(32);
    expect(before).toBe(32);

    // Until the other one has taken parts, this one gets no further.
    const alone = workers.map(recognized);
    for (const { engine } of workers) engine.runs.close();
    const id = await addJob({ split: true });
    for (const worker of workers) {
      await worker.model(MODEL, ({ batches }) => batches.runningItems > 0);
    }
    for (const { engine } of workers) engine.openGates();
    expect(await transcriptOf(id)).toEqual(whole);
    for (const [at, worker] of workers.entries()) {
      expect(recognized(worker)).toBeGreaterThan(alone[at] ?? 0);
    }
    expect(recognized(first) + recognized(second) - before).toBe(32);

    expect(await queue.counts()).toMatchObject({ completed: 2, failed: 0, waiting: 0 });
    expect((await queue.list({ states: ['completed'], limit: 10 })).map((job) => job.id)).toContain(
      id,
    );
    expect(await partKeys()).toEqual([]);
  });

  test('tells segments and progress as any other', async () => {
    await start();
    const told: string[] = [];
    const id = await addJob({ split: true, partials: true });
    for await (const event of queue.events(id)) told.push(event.type);
    expect(told).toContain('job.progress');
    expect(told.at(-1)).toBe('job.completed');
  });

  test('goes on when a worker ends that had parts of it', async () => {
    const [first, second] = [await start(), await start()];
    const whole = await transcriptOf(await addJob());
    for (const { engine } of workers) engine.runs.close();
    const id = await addJob({ split: true });
    for (const worker of workers) {
      await worker.model(MODEL, ({ batches }) => batches.runningItems > 0);
    }
    // The one that has only parts.
    const leaving = (first.latest?.heldJobs ?? 0) > 0 ? second : first;
    const ending = leaving.worker.close({ deadlineMs: 0 });
    leaving.engine.openGates();
    await ending;
    for (const { engine } of workers) engine.openGates();
    expect(await transcriptOf(id)).toEqual(whole);
    expect(await partKeys()).toEqual([]);
  });

  test('that is cancelled leaves nothing behind', async () => {
    const worker = await start();
    worker.engine.runs.close();
    const id = await addJob({ split: true });
    await worker.model(MODEL, ({ batches }) => batches.runningItems > 0);
    await queue.cancel(id);
    worker.engine.openGates();
    await expect(queue.waitFor(id)).rejects.toMatchObject({ code: 'CANCELLED' });
    await expect.poll(partKeys, { timeout: 10_000 }).toEqual([]);
    await worker.model(
      MODEL,
      ({ batches, activeSlots }) => batches.queuedItems + batches.runningItems + activeSlots === 0,
    );
  });

  test('fails as its parts do', async () => {
    const worker = await start();
    worker.engine.runs.close();
    const id = await addJob({ split: true, attempts: 1 });
    await worker.model(MODEL, ({ batches }) => batches.runningItems > 0);
    // The file is another one by now, for the parts that come later and for the job itself.
    const other = join(redis.dataDir, 'other.wav');
    await writeFile(other, wavOf(pcm16(sound('.s......'))));
    await rename(other, join(redis.dataDir, 'long.wav'));
    worker.engine.openGates();
    await expect(queue.waitFor(id)).rejects.toMatchObject({ code: 'INPUT_CHANGED' });
    await expect.poll(partKeys, { timeout: 10_000 }).toEqual([]);
  });

  test('is for transcriptions', async () => {
    const input = { kind: 'path', path: '/a.wav' } as const;
    const job = { input, task: 'vad', split: true } as unknown as NewJob;
    await expect(queue.add(job)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });
});

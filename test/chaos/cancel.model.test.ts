/** Cancelling what a real model is working on, from another process than its worker's. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { asTranscript } from '../../src/core/results/job-result.ts';
import type { ModelStatus, WorkerPresence } from '../../src/core/worker/status.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { readPresence } from '../../src/queue/fleet/presence.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { BASE_CLIP, longSpeech } from '../support/speech.ts';
import { runWavepool, type WavepoolProcess } from '../support/wavepool-process.ts';
import { Workplace } from '../support/workplace.ts';

const MODEL = 'moonshine-tiny';
/** Far more than is recognized before the test has ended. */
const LONG_SECONDS = 1_800;

let place: Workplace;
let redis: TestRedis;
let redisUrl: string;
let queue: AudioQueue;
let results: LocalResultStore;
let worker: WavepoolProcess;
let recording: string;

beforeAll(async () => {
  place = await Workplace.create();
  redis = await startRedis();
  const { address } = redis;
  redisUrl = address.kind === 'socket' ? `unix://${address.path}` : address.url;
  queue = await AudioQueue.open({ address, model: MODEL });
  results = await LocalResultStore.open(join(place.dataDir, 'results'));
  recording = join(place.inputs, 'long.flac');
  await longSpeech(recording, LONG_SECONDS);
  worker = place.command('worker', ['--redis', redisUrl, '--workers', '1']);
  await worker.before(worker.said('serving'));
});

afterAll(async () => {
  await queue.close();
  await place[Symbol.asyncDispose]();
  await redis[Symbol.asyncDispose]();
});

/** What a worker says of itself when this holds of it. */
async function presence(holds: (worker: WorkerPresence) => boolean): Promise<WorkerPresence> {
  const connection = await redis.connection();
  return vi.waitFor(
    async () => {
      const found = (await readPresence(connection)).find(holds);
      if (found === undefined) throw new Error('no worker says so');
      return found;
    },
    { timeout: 60_000 },
  );
}

function recognizer({ runtime }: WorkerPresence): ModelStatus | undefined {
  return runtime.models.find(({ id }) => id === MODEL);
}

/** Resolves when the job has a segment behind it and more before it. */
function inTheMiddle(id: string): Promise<void> {
  return new Promise((resolve) => {
    queue.on('progress', (event) => {
      if (event.id === id && event.progress.segmentsDone > 0) resolve();
    });
  });
}

async function add(path: string): Promise<string> {
  return queue.add({ input: { kind: 'path', path } });
}

async function textOf(id: string): Promise<string> {
  const { resultKey } = await queue.waitFor(id);
  return asTranscript(await results.read(resultKey)).text;
}

test('a running job stops within its batch, its neighbor is not touched, and the slot is free', async () => {
  const alone = await textOf(await add(BASE_CLIP.path));

  const long = await add(recording);
  await inTheMiddle(long);
  const neighbor = await add(BASE_CLIP.path);
  const cancelled = await runWavepool(['jobs', 'cancel', long, '--redis', redisUrl]);
  expect(cancelled.code, cancelled.stderr).toBe(0);
  await expect(queue.waitFor(long)).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(await textOf(neighbor)).toBe(alone);

  // Segments that had been given to native code ended there by the cancel, and not with a result that nobody wants.
  const idle = await presence((found) => {
    const { activeSlots, batches } = recognizer(found) ?? {};
    return found.heldJobs === 0 && activeSlots === 0 && (batches?.cancelledItems ?? 0) > 0;
  });
  expect(recognizer(idle)).toMatchObject({
    queuedRequests: 0,
    batches: { queuedItems: 0, runningItems: 0 },
  });
  expect(await queue.get(long)).toMatchObject({ state: 'cancelled', attemptsMade: 1 });

  // Too late, which is said and harms nothing.
  const again = await runWavepool(['jobs', 'cancel', long, neighbor, '--redis', redisUrl]);
  expect(again.stdout.match(/finished/g), again.stderr).toHaveLength(2);
  expect(await textOf(await add(BASE_CLIP.path))).toBe(alone);
});

/** Split jobs over the real models: word for word, and time for time, what one worker makes of the whole. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../../src/core/config.ts';
import type { NewJob } from '../../../src/core/job/job.ts';
import { createLogger } from '../../../src/core/logger.ts';
import { asTranscript } from '../../../src/core/results/job-result.ts';
import { WorkerSettings } from '../../../src/core/worker/worker-settings.ts';
import { addonPath } from '../../../src/engine/binding.ts';
import { NativeEngine } from '../../../src/engine/native-engine.ts';
import { ModelStore } from '../../../src/models/store/model-store.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { LocalResultStore } from '../../../src/storage/local-result-store.ts';
import { AudioWorker } from '../../../src/worker/audio-worker.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { ffmpeg, longSpeech } from '../../support/speech.ts';

const TIMEOUT_MS = 300_000;

const { modelsDir } = readConfig();
const store = new ModelStore({ directory: modelsDir, environment: process.env });
const silero = await store.locate('silero-vad');
const moonshine = await store.locate('moonshine-tiny');
const ready = silero !== undefined && moonshine !== undefined && existsSync(addonPath());
if (!ready) {
  process.stderr.write('NOT TESTED: split jobs need the addon, silero-vad and moonshine-tiny\n');
}

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0);
}

describe.skipIf(!ready)('a split job over the real models', () => {
  let redis: TestRedis;
  let workers: AudioWorker[];
  let queue: AudioQueue;
  let results: LocalResultStore;

  beforeAll(async () => {
    redis = await startRedis();
    results = await LocalResultStore.open(join(redis.dataDir, 'results'));
    workers = [];
    for (let count = 0; count < 2; count += 1) {
      const engine = new NativeEngine();
      const model = { id: 'moonshine-tiny', path: moonshine?.path ?? '' };
      const worker = new AudioWorker({
        settings: WorkerSettings.parse({
          redis: redis.address,
          resultsDir: join(redis.dataDir, 'results'),
          models: [{ ...model, slots: 1, batch: 8, threads: 1 }],
          detector: { id: 'silero-vad', path: silero?.path ?? '' },
        }),
        engine,
        planner: engine,
        results,
        logger: createLogger('silent', 'test'),
        report: () => undefined,
      });
      await worker.start();
      workers.push(worker);
    }
    queue = await AudioQueue.open({ address: redis.address, model: 'moonshine-tiny' });
    const speech = join(redis.dataDir, 'speech.flac');
    await longSpeech(speech, 110);
    // The second channel lags: what is said on the two overlaps.
    const lagging = '[0]asplit[a][b];[b]adelay=3500[c];[a][c]join=inputs=2:channel_layout=stereo';
    const stereo = ['-filter_complex', lagging, '-t', '50', '-q:a', '6'];
    await ffmpeg('-i', speech, ...stereo, join(redis.dataDir, 'call.mp3'));
  }, TIMEOUT_MS);
  afterAll(async () => {
    await queue.close();
    await Promise.all(workers.map((worker) => worker.close({ deadlineMs: 0 })));
    await redis[Symbol.asyncDispose]();
  });

  async function transcribe(name: string, job: Partial<NewJob>) {
    const path = join(redis.dataDir, name);
    const id = await queue.add({ input: { kind: 'path', path }, ...job } as NewJob);
    const { resultKey } = await queue.waitFor(id);
    const transcript = asTranscript(await results.read(resultKey));
    const { jobId: _, timings: __, createdAt: ___, ...same } = transcript;
    return same;
  }

  function recognized(): number[] {
    return workers.map(({ presence }) => {
      const model = presence?.runtime.models.find(({ id }) => id === 'moonshine-tiny');
      return model?.batches.completedItems ?? 0;
    });
  }

  test('is equal to the whole', { timeout: TIMEOUT_MS }, async () => {
    const whole = await transcribe('speech.flac', {});
    const before = recognized();
    expect(await transcribe('speech.flac', { split: true })).toEqual(whole);
    expect(whole.segments.length).toBeGreaterThan(5);
    expect(sum(recognized())).toBe(2 * sum(before));
  });

  test('also where channels are told apart', { timeout: TIMEOUT_MS }, async () => {
    const options = { channels: 'split' } as const;
    const whole = await transcribe('call.mp3', { options });
    expect(await transcribe('call.mp3', { options, split: true })).toEqual(whole);
    expect(new Set(whole.segments.map(({ speaker }) => speaker)).size).toBe(2);
  });
});

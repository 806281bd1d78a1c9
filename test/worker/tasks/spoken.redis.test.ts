/** Language, words and channels from a job in the queue to its result: a worker over the fake families. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { NewJob } from '../../../src/core/job/job.ts';
import { asTranscript } from '../../../src/core/results/job-result.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { LocalResultStore } from '../../../src/storage/local-result-store.ts';
import { writeWav } from '../../engine/fake-model.ts';
import { TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { FakeWorker } from '../../support/fake-worker.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { ffmpeg } from '../../support/speech.ts';

/** Whole windows of the fake detector, all of them speech. */
const SECONDS = 1.024;
/** Of the second speaker, in milliseconds. */
const LATER_MS = 4_096;

describe.skipIf(!TEST_ADDON_BUILT)('a worker', { timeout: 60_000 }, () => {
  let redis: TestRedis;
  let worker: FakeWorker;
  const file = (name: string) => join(redis.dataDir, name);

  beforeAll(async () => {
    redis = await startRedis();
    worker = await FakeWorker.start({
      address: redis.address,
      folder: redis.dataDir,
      models: { speaking: { languages: ['en', 'de'] }, mute: {} },
    });
    const [first, second] = [
      writeWav(file('a.wav'), SECONDS, 1),
      writeWav(file('b.wav'), SECONDS, 2),
    ];
    const call = `[1:a]adelay=${LATER_MS}[r];[0:a]apad=whole_dur=6.144[p];[r]apad=whole_dur=6.144[q];[p][q]join=inputs=2:channel_layout=stereo[c]`;
    await ffmpeg(
      '-i',
      first,
      '-i',
      second,
      '-filter_complex',
      call,
      '-map',
      '[c]',
      file('call.wav'),
    );
    await ffmpeg('-i', file('call.wav'), file('call.aiff'));
    for (const channel of [0, 1])
      await ffmpeg(
        '-i',
        file('call.wav'),
        '-af',
        `pan=mono|c0=c${channel}`,
        file(`only-${channel}.wav`),
      );
  });
  afterAll(async () => {
    await worker[Symbol.asyncDispose]();
    await redis[Symbol.asyncDispose]();
  });

  async function run(name: string, options: NewJob['options'], model = 'speaking') {
    await using queue = await AudioQueue.open({ address: redis.address, model });
    const id = await queue.add({ input: { kind: 'path', path: file(name) }, options });
    const { resultKey } = await queue.waitFor(id);
    const results = await LocalResultStore.open(join(redis.dataDir, 'results'));
    return asTranscript(await results.read(resultKey));
  }

  test('gives each channel the text of a file that holds it alone, in process and through ffmpeg', async () => {
    const alone = [await run('only-0.wav', {}), await run('only-1.wav', {})];
    expect(alone[0]?.text).not.toBe(alone[1]?.text);
    const texts = alone.map(({ text }) => text).join(' ');
    for (const name of ['call.wav', 'call.aiff']) {
      const transcript = await run(name, { channels: 'split', speakers: ['agent', 'caller'] });
      expect(transcript.text).toBe(texts);
      const turns = transcript.segments.map(({ speaker }) => speaker);
      expect(turns).toEqual(['agent', 'agent', 'caller', 'caller']);
      expect(transcript.segments.at(-1)?.start).toBeGreaterThan(LATER_MS / 1_000 - 0.5);
    }
  });

  test('tells language, prompt, translation and words to the recognizer, and their answers to the result', async () => {
    const { segments, language } = await run('only-0.wav', {
      ...{ language: 'de-AT', translate: true, words: true },
      prompt: 'echo Ada',
    });
    expect(language).toBe('de');
    expect(segments.map(({ text }) => text)).toEqual([
      'translated',
      expect.stringMatching(/^fake [0-9a-f]+ \d+ \[de Ada\]$/),
    ]);
    const words = segments.flatMap((segment) => segment.words ?? []);
    expect(words.map(({ text }) => text).join(' ')).toBe(
      segments.map(({ text }) => text).join(' '),
    );
    expect(words.every(({ start, end }) => start >= 0 && end <= 6 && end > start)).toBe(true);
    expect(segments[0]).toMatchObject({ confidence: 0.9, temperature: 0 });
  });

  test('refuses what its model does not have, and publishes what that is', async () => {
    const refused = run('only-0.wav', { words: true }, 'mute');
    await expect(refused).rejects.toMatchObject({ code: 'OPTION_UNSUPPORTED' });
    expect(await worker.model('speaking', ({ loaded }) => loaded)).toMatchObject({
      languages: ['en', 'de'],
      optionNames: expect.arrayContaining(['words', 'prompt']),
    });
  });
});

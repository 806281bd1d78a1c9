/**
 * `wavepool worker`, and that its memory does not grow with the length of a file. The bar is two hours against ten minutes:
 * WAVEPOOL_TEST_TWO_HOURS=1 measures that; without it, twenty minutes against ten already fill every buffer.
 */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readConfig } from '../../src/core/config.ts';
import type { JobOutcome } from '../../src/core/job/job.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { EmbeddedRedis } from '../../src/queue/redis/embedded-redis.ts';
import { peakMemory, workersOf } from '../support/process-table.ts';
import { longSpeech } from '../support/speech.ts';
import { Workplace } from '../support/workplace.ts';

const MEBIBYTE = 1024 * 1024;
const SHORT_SECONDS = 600;
const { WAVEPOOL_TEST_TWO_HOURS } = process.env;
const LONG_SECONDS = WAVEPOOL_TEST_TWO_HOURS === '1' ? 7_200 : 1_200;
/** Reading is as fast as it is; the rest is for slow machines. */
const TIMEOUT_MS = 1_000 * LONG_SECONDS;

test('a long file needs no more memory than a short one', { timeout: TIMEOUT_MS }, async ({
  annotate,
}) => {
  const [short, long] = await Promise.all([
    peakOfTranscribing(SHORT_SECONDS),
    peakOfTranscribing(LONG_SECONDS),
  ]);
  const figures = `${SHORT_SECONDS} s: ${inMebibytes(short)}, ${LONG_SECONDS} s: ${inMebibytes(long)}`;
  await annotate(`peak memory of a worker: ${figures}`);
  expect(Math.abs(long - short) / short, figures).toBeLessThanOrEqual(0.1);
  expect(Math.max(short, long), figures).toBeLessThanOrEqual(350 * MEBIBYTE);
});

/** The peak of a worker that has transcribed one file of so many seconds. */
async function peakOfTranscribing(seconds: number): Promise<number> {
  await using place = await Workplace.create();
  const file = join(place.inputs, 'speech.flac');
  await longSpeech(file, seconds);
  const worker = place.command('worker', ['--workers', '1']);
  await worker.before(worker.said('serving moonshine-tiny'));
  const outcome = await worker.before(transcribe(place, file));
  expect(outcome.durationSeconds).toBeCloseTo(seconds, 0);
  expect(outcome.speechSeconds).toBeGreaterThan(0.7 * seconds);
  const [pid = 0] = await workersOf(worker.pid);
  const peak = await peakMemory(pid);
  worker.kill('SIGTERM');
  const { code, stderr } = await worker.ended;
  expect(code, stderr).toBe(0);
  expect(stderr).not.toContain('Warning');
  expect(await place.redisPid()).toBeUndefined();
  return peak ?? Number.NaN;
}

/** A producer of its own, as a program with the library is. */
async function transcribe({ dataDir }: Workplace, path: string): Promise<JobOutcome> {
  await using redis = await EmbeddedRedis.acquire({ ...readConfig(), dataDir });
  const queue = await AudioQueue.open({ address: redis.address, model: 'moonshine-tiny' });
  try {
    const id = await queue.add({ input: { kind: 'path', path } });
    return await queue.waitFor(id);
  } finally {
    await queue.close();
  }
}

function inMebibytes(bytes: number): string {
  return `${(bytes / MEBIBYTE).toFixed(0)} MiB`;
}

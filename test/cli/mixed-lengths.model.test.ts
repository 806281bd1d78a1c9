/** Clips of very different lengths that share native batches: each says what it says alone, within its own time. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Transcript } from '../../src/core/results/job-result.ts';
import { ffmpeg, longSpeech } from '../support/speech.ts';
import { Workplace } from '../support/workplace.ts';

const SECONDS = [1, 3, 11, 29, 65];

let place: Workplace;
beforeAll(async () => {
  place = await Workplace.create();
  const whole = join(place.root, 'whole.flac');
  await longSpeech(whole, 110);
  let from = 0;
  for (const seconds of SECONDS) {
    const target = join(place.inputs, `${seconds}.wav`);
    await ffmpeg('-ss', String(from), '-t', String(seconds), '-i', whole, target);
    from += seconds;
  }
});
afterAll(() => place[Symbol.asyncDispose]());

async function transcribed(batch: number): Promise<Transcript[]> {
  const out = join(place.root, `out-${batch}`);
  const options = ['--workers', '1', '--batch', String(batch), '--format', 'json'];
  const end = await place.run([place.inputs, '--out', out, ...options]);
  expect(end.code, end.stderr).toBe(0);
  return Promise.all(
    SECONDS.map((seconds) => place.transcript(join('..', `out-${batch}`, `${seconds}.json`))),
  );
}

test('in batches of eight as in batches of one', async () => {
  const [together, alone] = [await transcribed(8), await transcribed(1)];
  for (const [at, transcript] of together.entries()) {
    const { segments, audio } = transcript;
    expect(segments).toEqual(alone[at]?.segments);
    expect(audio.durationSeconds).toBeCloseTo(SECONDS[at] ?? 0, 1);
    for (const { start, end } of segments) {
      expect(start).toBeLessThan(end);
      expect(end).toBeLessThanOrEqual(audio.durationSeconds);
    }
  }
  expect(together.at(-1)?.segments.length).toBeGreaterThan(2);
});

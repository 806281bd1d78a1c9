/** The words themselves: how many are right, and that company in a batch changes none. */
import { join, parse } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ffmpeg, SPEECH, speechClip } from '../support/speech.ts';
import { wordErrorRate } from '../support/word-error-rate.ts';
import { Workplace } from '../support/workplace.ts';

/** Parts of one reading, from and for so many seconds: lengths that batches mix. */
const CUTS = [
  ['cut-3', 1, 3],
  ['cut-5', 5, 5],
  ['cut-9', 9, 9],
  ['cut-14', 14, 14],
  ['cut-20', 20, 20],
] as const;

let place: Workplace;

beforeAll(async () => {
  place = await Workplace.create();
  for (const { file, path } of SPEECH)
    await ffmpeg('-i', path, '-c', 'copy', join(place.inputs, file));
  const { path } = speechClip('two-cities-48k.flac');
  for (const [name, from, seconds] of CUTS) {
    const part = ['-ss', String(from), '-t', String(seconds)];
    await ffmpeg(...part, '-i', path, join(place.inputs, `${name}.wav`));
  }
  const { code, stderr } = await place.transcribe('txt,json');
  expect(code, stderr).toBe(0);
});

afterAll(() => place[Symbol.asyncDispose]());

test('at most 3 words of 100 are wrong', async () => {
  const pairs = SPEECH.map(async ({ file, reference }) => {
    return [reference, await place.read(`${parse(file).name}.txt`)] as const;
  });
  expect(wordErrorRate(await Promise.all(pairs))).toBeLessThanOrEqual(0.03);
});

test('a file says the same alone, on two threads, as in a run of many', async () => {
  const files = [...SPEECH.map(({ file }) => file), ...CUTS.map(([name]) => `${name}.wav`)];
  for (const file of files) {
    await using alone = await Workplace.create();
    const { code, stdout, stderr } = await alone.run([
      join(place.inputs, file),
      '--workers',
      '1',
      '--threads',
      '2',
    ]);
    expect(code, stderr).toBe(0);
    expect(stdout, file).toBe(await place.read(`${parse(file).name}.txt`));
  }
});

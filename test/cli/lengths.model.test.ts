/** Speech of every length, from a syllable to minutes: all of it becomes text. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ffmpeg, joinClips, SPEECH, speechClip } from '../support/speech.ts';
import { wordErrorRate } from '../support/word-error-rate.ts';
import { Workplace } from '../support/workplace.ts';

const BOOK = ['sense-0870', 'sense-0880', 'sense-0890', 'sense-0920', 'sense-0930'];
/** Seconds, and the clips that add up to them. */
const LENGTHS: readonly (readonly [seconds: number, clips: readonly string[]])[] = [
  [3, ['sense-0880']],
  [7, ['sense-0870']],
  [10, ['sense-0870', 'sense-0880']],
  [12, ['sense-0870', 'sense-0890']],
  [30, [...BOOK, 'sense-0890']],
  [60, ['two-cities-48k', 'sense-0870', 'sense-0920']],
  [300, [...everything(), ...everything(), ...everything(), 'two-cities-48k', 'jfk', 'sense-0890']],
];

let place: Workplace;
const references = new Map<number, string>();

beforeAll(async () => {
  place = await Workplace.create();
  for (const [seconds, names] of LENGTHS) {
    const clips = names.map(clipNamed);
    references.set(seconds, await joinClips(join(place.inputs, `${seconds}.wav`), clips));
  }
  const word = ['-ss', '1.95', '-t', '0.3', '-i', clipNamed('sense-0880').path];
  await ffmpeg(...word, join(place.inputs, '0.3.wav'));
  const { code, stderr } = await place.run([
    ...[place.inputs, '--out', place.out, '--format', 'txt,json,srt', '--quiet'],
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});

afterAll(() => place[Symbol.asyncDispose]());

test.each(LENGTHS.map(([seconds]) => seconds))(
  '%d s of speech become its words',
  async (seconds) => {
    const { audio, text, segments, noSpeech, warnings } = await place.transcript(`${seconds}.json`);
    expect(Math.abs(audio.durationSeconds - seconds)).toBeLessThanOrEqual(0.05 * seconds + 1);
    expect({ noSpeech, warnings }).toEqual({ noSpeech: false, warnings: [] });
    const rate = wordErrorRate([[references.get(seconds) ?? '', text]]);
    expect(rate, text).toBeLessThanOrEqual(seconds < 30 ? 0.15 : 0.05);
    let last = 0;
    for (const { start, end } of segments) {
      expect(start).toBeGreaterThanOrEqual(last);
      expect(end).toBeGreaterThan(start);
      last = end;
    }
    expect(last).toBeLessThanOrEqual(audio.durationSeconds);
  },
);

test('a part of a word in which speech is found is text, too', async () => {
  const { text, noSpeech, segments, warnings } = await place.transcript('0.3.json');
  expect({ noSpeech, segments: segments.length }).toEqual({ noSpeech: false, segments: 1 });
  expect(text).toMatch(/\w/);
  expect(text.split(' ').length, text).toBeLessThanOrEqual(4);
  expect(warnings.every(({ code }) => code === 'TEXT_GUESSED')).toBe(true);
});

function everything(): string[] {
  return SPEECH.map(({ file }) => file.replace(/\.\w+$/, ''));
}

function clipNamed(name: string) {
  return speechClip(`${name}${name === 'jfk' ? '.mp3' : '.flac'}`);
}

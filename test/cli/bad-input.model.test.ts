/** Inputs that broke comparable programs: each ends right, and none disturbs the others. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { InputFailure } from '../../src/bulk/summary.ts';
import { errorRow } from '../../src/core/errors.ts';
import {
  writeFullScale,
  writeHeaderOnly,
  writeStreamedWav,
  writeWithBrokenPicture,
  writeWithSizes,
} from '../support/odd-audio.ts';
import { BASE_CLIP, ffmpeg, writeNoise } from '../support/speech.ts';
import { summaryOf } from '../support/wavepool-process.ts';
import { normalizedWords, wordErrors } from '../support/word-error-rate.ts';
import { Workplace } from '../support/workplace.ts';

let place: Workplace;
let failures: Map<string, InputFailure>;
let base: string[];

beforeAll(async () => {
  place = await Workplace.create();
  const input = (name: string): string => join(place.inputs, name);
  const from = (...args: string[]) => ffmpeg('-i', input('base.wav'), ...args);
  await ffmpeg('-i', BASE_CLIP.path, '-ar', '16000', '-ac', '1', input('base.wav'));
  await writeStreamedWav(input('base.wav'), input('streamed.wav'));
  await writeWithSizes(input('base.wav'), input('sizes-zero.wav'), 0);
  await from('-ac', '2', '-ar', '44100', '-c:a', 'pcm_s24le', input('extensible.wav'));
  await from('-ar', '8000', '-c:a', 'pcm_mulaw', input('mulaw.wav'));
  await from('-ar', '8000', '-c:a', 'pcm_alaw', input('alaw.wav'));
  await from('-ar', '8000', '-c:a', 'pcm_mulaw', '-f', 'mulaw', input('mulaw-without-header.wav'));
  await writeFile(input('no-bytes.wav'), '');
  await writeHeaderOnly(input('header-only.wav'));
  await writeNoise(input('noise.mp3'), 1_000_000);
  await ffmpeg('-f', 'lavfi', '-i', 'anullsrc=r=16000:cl=mono', '-t', '600', input('silence.wav'));
  await writeFullScale(input('base.wav'), input('loud.wav'));
  const loud = (pan: string, name: string) =>
    ffmpeg('-i', input('loud.wav'), '-af', `pan=stereo|${pan}`, input(name));
  await loud('c0=0*c0|c1=c0', 'right.wav');
  await loud('c0=c0|c1=0*c0', 'left.wav');
  await loud('c0=c0|c1=c0', 'both.wav');
  await loud('c0=c0|c1=-1*c0', 'opposed.wav');
  await from('-map_metadata', '-1', '-id3v2_version', '0', '-b:a', '128k', input('plain.mp3'));
  await writeWithBrokenPicture(input('plain.mp3'), input('picture.mp3'));
  const end = await place.transcribe('txt,json,srt,vtt');
  expect(end.code, end.stderr).toBe(1);
  const { failed } = summaryOf(end);
  failures = new Map(
    failed.map((failure) => [failure.path.slice(place.inputs.length + 1), failure]),
  );
  base = await wordsOf('base');
  expect(base.length).toBeGreaterThan(20);
});

afterAll(() => place[Symbol.asyncDispose]());

test('nothing failed but what holds no audio', () => {
  expect([...failures.keys()]).toEqual([
    'header-only.wav',
    'mulaw-without-header.wav',
    'no-bytes.wav',
    'noise.mp3',
  ]);
});

test.each(['streamed', 'sizes-zero'])('WAV sizes are not believed: %s', async (name) => {
  expect(await wordsOf(name)).toEqual(base);
  const { audio } = await place.transcript(`${name}.json`);
  expect(audio.durationSeconds).toBeCloseTo(11, 1);
});

test('extensible WAV of 24 bits is read as what it is', async () => {
  expect(await wordsOf('extensible')).toEqual(base);
  const { audio } = await place.transcript('extensible.json');
  expect(audio).toMatchObject({ container: 'wav', sampleRate: 44_100, channels: 2 });
  expect(audio.codec).toContain('24');
});

test.each(['mulaw', 'alaw'])('telephone audio is understood: %s', async (name) => {
  const { text, audio } = await place.transcript(`${name}.json`);
  expect(wordErrors(base.join(' '), text).errors).toBeLessThanOrEqual(2);
  expect(audio).toMatchObject({ sampleRate: 8_000, channels: 1 });
});

test.each([
  ['mulaw-without-header.wav', 'INPUT_UNDECODABLE'],
  ['no-bytes.wav', 'INPUT_EMPTY'],
  ['header-only.wav', 'INPUT_EMPTY'],
  ['noise.mp3', 'INPUT_UNDECODABLE'],
] as const)('%s fails once, with %s and its name', (name, code) => {
  const failure = failures.get(name);
  expect(failure?.code, failure?.message).toBe(code);
  expect(failure?.message).toContain(name);
  expect(errorRow(code).retryable).toBe(false);
});

test('silence is a result without words, and no recognition ran for it', async () => {
  const transcript = await place.transcript('silence.json');
  expect(transcript).toMatchObject({ text: '', segments: [], noSpeech: true, warnings: [] });
  expect(transcript.audio.durationSeconds).toBe(600);
  expect(transcript.timings.asrMs).toBe(0);
  expect(await place.read('silence.txt')).toBe('');
  expect(await place.read('silence.srt')).toBe('');
  expect(await place.read('silence.vtt')).toBe('WEBVTT\n');
});

test.each(['left', 'right', 'both', 'opposed'])(
  'speech at full scale is the same on any channel: %s',
  async (name) => {
    expect(await wordsOf(name)).toEqual(await wordsOf('loud'));
    expect(await wordsOf(name)).toEqual(base);
    expect((await place.transcript(`${name}.json`)).audio.channels).toBe(2);
  },
);

test('a broken picture in an MP3 is not looked at', async () => {
  expect(await wordsOf('picture')).toEqual(await wordsOf('plain'));
  expect(await wordsOf('picture')).toEqual(base);
});

test('raw bytes and other files without a media extension are no inputs', async () => {
  await using other = await Workplace.create();
  await mkdir(join(other.inputs, 'sub'));
  await writeNoise(join(other.inputs, 'sub/noise.dat'), 10_000);
  const { code, stdout, stderr } = await other.transcribe('txt');
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ found: 0, skipped: 1, failed: [] });
});

async function wordsOf(name: string): Promise<string[]> {
  return normalizedWords(await place.read(`${name}.txt`));
}

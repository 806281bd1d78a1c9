/** `wavepool run` over a directory, as a user meets it: outputs, summary, exit code, and what a second call does. */
import { cp, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  BASE_CLIP,
  expectSaid,
  ffmpeg,
  SPEECH,
  speechClip,
  writeNoise,
} from '../../support/speech.ts';
import { type Cue, parseSrt, parseVtt } from '../../support/subtitles.ts';
import { type ProcessEnd, summaryOf } from '../../support/wavepool-process.ts';
import { Workplace } from '../../support/workplace.ts';

/** Output name → the clip that its input was made of. */
const RECORDINGS: Readonly<Record<string, string>> = {
  monday: 'sense-0870.flac',
  'talks/tuesday': 'jfk.mp3',
  'talks/deep/wednesday': 'two-cities-48k.flac',
  'talks/deep/er/thursday': 'sense-0890.flac',
  'music/friday': 'sense-0920.flac',
};
const BROKEN = { noise: 'broken/noise.mp3', empty: 'talks/empty.wav' };
/** With these no worker can start and no queue can be opened. */
const NOTHING_TO_WORK_WITH = ['--redis', 'unix:///nonexistent/redis.sock'];
const NO_ADDON = { env: { WAVEPOOL_ADDON: '/nonexistent/addon.node' } };

let place: Workplace;
let first: ProcessEnd;

beforeAll(async () => {
  place = await Workplace.create();
  const input = (name: string): string => join(place.inputs, name);
  await ffmpeg('-i', speechClip('sense-0870.flac').path, '-ar', '44100', input('monday.wav'));
  await ffmpeg('-i', speechClip('jfk.mp3').path, '-c', 'copy', input('talks/tuesday.mp3'));
  const wednesday = input('talks/deep/wednesday.flac');
  await ffmpeg('-i', speechClip('two-cities-48k.flac').path, '-c', 'copy', wednesday);
  await ffmpeg('-i', speechClip('sense-0890.flac').path, input('talks/deep/er/thursday.m4a'));
  await ffmpeg('-i', speechClip('sense-0920.flac').path, '-ac', '2', input('music/friday.ogg'));
  await writeNoise(input(BROKEN.noise), 1_000_000);
  await writeFile(input(BROKEN.empty), '');
  await writeFile(input('talks/notes.txt'), 'not a recording');
  first = await place.transcribe('txt,json,srt');
});

afterAll(() => place[Symbol.asyncDispose]());

test('a directory of many formats is transcribed, its broken files are named, the exit code is 1', () => {
  expect(first.code, first.stderr).toBe(1);
  expect(summaryOf(first)).toMatchObject({
    found: 7,
    done: 5,
    finished: 0,
    skipped: 1,
    noSpeech: 0,
    problems: [],
    interrupted: false,
    failed: [
      { path: join(place.inputs, BROKEN.noise), code: 'INPUT_UNDECODABLE' },
      { path: join(place.inputs, BROKEN.empty), code: 'INPUT_EMPTY' },
    ],
  });
  for (const name of Object.values(BROKEN)) expect(first.stderr).toContain(name);
});

test('the output tree is that of the inputs', async () => {
  const names = Object.keys(RECORDINGS);
  const expected = names.flatMap((name) => ['json', 'srt', 'txt'].map((ext) => `${name}.${ext}`));
  const files = (await place.outputs()).filter((file) => !file.endsWith('.vtt'));
  expect(files).toEqual(expected.toSorted());
});

test.each(Object.entries(RECORDINGS))('%s says what %s says', async (name, file) => {
  const text = await place.read(`${name}.txt`);
  expectSaid(text, speechClip(file).reference);
  const transcript = await place.transcript(`${name}.json`);
  expect(text.trim().split(/\s+/).join(' ')).toBe(transcript.text);
  expect(basename(transcript.input.path, '.wav')).toContain(basename(name));
});

test.each(Object.keys(RECORDINGS))('the subtitles of %s are whole and in time', async (name) => {
  const { audio, text } = await place.transcript(`${name}.json`);
  const cues = parseSrt(await place.read(`${name}.srt`));
  expectInTime(cues, audio.durationSeconds);
  expect(cues.flatMap(({ lines }) => lines).join(' ')).toBe(text);
});

test('a second call does no work, touches nothing and ends the same', async () => {
  const before = await place.snapshot();
  const second = await place.run(
    [
      place.inputs,
      '--out',
      place.out,
      '--format',
      'txt,json,srt',
      '--json',
      ...NOTHING_TO_WORK_WITH,
    ],
    NO_ADDON,
  );
  expect(second.code, second.stderr).toBe(1);
  expect(summaryOf(second)).toMatchObject({
    found: 7,
    done: 0,
    finished: 5,
    failed: summaryOf(first).failed,
    audioSeconds: 0,
  });
  expect(await place.snapshot()).toEqual(before);
});

test('a format that is newly wanted, and an output that is gone, are written without work', async () => {
  const before = await place.snapshot();
  const gone = 'talks/tuesday.srt';
  await rm(join(place.out, gone));
  const { code, stderr } = await place.run(
    [place.inputs, '--out', place.out, '--format', 'srt,vtt', '--json', ...NOTHING_TO_WORK_WITH],
    NO_ADDON,
  );
  expect(code, stderr).toBe(1);
  expect(await place.read(gone)).toBe(before.get(gone)?.text);
  for (const name of Object.keys(RECORDINGS)) {
    const { audio } = await place.transcript(`${name}.json`);
    const cues = parseVtt(await place.read(`${name}.vtt`));
    expectInTime(cues, audio.durationSeconds);
    expect(cues).toEqual(parseSrt(await place.read(`${name}.srt`)));
  }
});

test('a changed input is transcribed again, and only that', async () => {
  const before = await place.snapshot();
  await cp(speechClip('sense-0880.flac').path, join(place.inputs, 'monday.wav'));
  const { code, stdout, stderr } = await place.transcribe('txt,json,srt');
  expect(code, stderr).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ done: 1, finished: 4 });
  const { reference } = speechClip('sense-0880.flac');
  expectSaid(await place.read('monday.txt'), reference);
  const after = await place.snapshot();
  const changed = [...after.keys()].filter(
    (file) => after.get(file)?.mtimeMs !== before.get(file)?.mtimeMs,
  );
  expect(changed).toEqual(['monday.json', 'monday.srt', 'monday.txt']);
});

test('one file without --out is printed, and nothing else is on stdout', async () => {
  const { code, stdout, stderr } = await place.run([BASE_CLIP.path]);
  expect(code, stderr).toBe(0);
  expectSaid(stdout, BASE_CLIP.reference);
  expect(stdout.endsWith('\n')).toBe(true);
  const again = await place.run(
    [BASE_CLIP.path, '--format', 'srt', ...NOTHING_TO_WORK_WITH],
    NO_ADDON,
  );
  expect(again.code, again.stderr).toBe(0);
  expect(
    parseSrt(again.stdout)
      .flatMap(({ lines }) => lines)
      .join(' '),
  ).toBe(stdout.trim().split('\n').join(' '));
});

test('several files without --out are a line each, under the name that was typed', async () => {
  const clips = SPEECH.filter(({ file }) => ['sense-0880.flac', 'sense-0930.flac'].includes(file));
  const { code, stdout, stderr } = await place.run(clips.map(({ path }) => path));
  expect(code, stderr).toBe(0);
  const lines = stdout.trim().split('\n').toSorted();
  expect(lines).toHaveLength(2);
  for (const [at, { file, reference }] of clips.entries()) {
    const [name = '', text = ''] = lines[at]?.split(': ') ?? [];
    expect(name).toBe(join('test/fixtures/speech', file));
    expectSaid(text, reference);
  }
});

test('no Redis is left behind', async () => {
  expect(await place.redisPid()).toBeUndefined();
});

/** Cues follow each other, none is empty, and all lie within the audio. */
function expectInTime(cues: readonly Cue[], durationSeconds: number): void {
  expect(cues.length).toBeGreaterThan(0);
  let last = 0;
  for (const { startMs, endMs } of cues) {
    expect(startMs).toBeGreaterThanOrEqual(last);
    expect(endMs).toBeGreaterThan(startMs);
    last = endMs;
  }
  expect(last).toBeLessThanOrEqual(Math.ceil(1_000 * durationSeconds));
}

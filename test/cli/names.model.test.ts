/** Names that shells, URLs and file systems trip over. */
import { cp, mkdir } from 'node:fs/promises';
import { dirname, join, parse } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectSaid, ffmpeg, speechClip } from '../support/speech.ts';
import { summaryOf } from '../support/wavepool-process.ts';
import { Workplace } from '../support/workplace.ts';

const CLIP = speechClip('sense-0930.flac');
const FOLDER = `каталог; 'é' "#1" & -`;
/** Those that end in ogg are read by ffmpeg, the others in process. */
const NAMES = [
  'Привет, мир.ogg',
  '日本語の録音.flac',
  '🎙️ emoji.ogg',
  'two  words.flac',
  'semi;colon.ogg',
  "it's.ogg",
  'say "hi".ogg',
  'hash#tag.ogg',
  'percent%20sign%s.ogg',
  'a&b|c>d$(e)`f`.ogg',
  '-leading.ogg',
  'dots..inside.ogg',
  'colon: http://x.ogg'.replaceAll('/', '⁄'),
  'new\nline.ogg',
  `${'ж'.repeat(100)}.flac`,
  join(FOLDER, '-i.ogg'),
  join(FOLDER, 'café.flac'),
];
/** The same to the eye, and to some file systems: composed and decomposed. */
const TWINS = ['caf\u00e9.flac', 'cafe\u0301.flac'];

let place: Workplace;

beforeAll(async () => {
  place = await Workplace.create();
  const ogg = join(place.root, 'clip.ogg');
  await ffmpeg('-i', CLIP.path, ogg);
  for (const name of [...NAMES, ...TWINS]) {
    const target = join(place.inputs, name);
    await mkdir(dirname(target), { recursive: true });
    await cp(name.endsWith('.ogg') ? ogg : CLIP.path, target);
  }
});

afterAll(() => place[Symbol.asyncDispose]());

test('every file is done, and its output has the name of the input', async () => {
  const end = await place.transcribe('txt');
  expect(end.code, end.stderr).toBe(0);
  const count = NAMES.length + TWINS.length;
  expect(summaryOf(end)).toMatchObject({ found: count, done: count, failed: [], problems: [] });
  const stems = NAMES.map((name) => join(parse(name).dir, `${parse(name).name}.txt`));
  const twins = TWINS.map((name) => `${name}.txt`);
  expect(await place.outputs()).toEqual([...stems, ...twins].toSorted());
  for (const name of [...stems, ...twins]) expectSaid(await place.read(name), CLIP.reference);
});

test('they are known again by the second run', async () => {
  const { code, stdout, stderr } = await place.transcribe('txt');
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ done: 0, finished: NAMES.length + TWINS.length });
});

test('a name that looks like an option is a file after --', async () => {
  const { code, stdout, stderr } = await place.run(['--', '-leading.ogg'], { cwd: place.inputs });
  expect(code, stderr).toBe(0);
  expectSaid(stdout, CLIP.reference);
});

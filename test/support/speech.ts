/** Real speech with its words, and files that are made of it. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { wordErrors } from './word-error-rate.ts';

const run = promisify(execFile);
const FOLDER = resolve(import.meta.dirname, '../fixtures/speech');

export interface SpeechClip {
  readonly file: string;
  readonly path: string;
  /** What is said. */
  readonly reference: string;
}

/** The clips of test/fixtures/speech. */
export const SPEECH: readonly SpeechClip[] = readFileSync(join(FOLDER, 'transcripts.tsv'), 'utf8')
  .trim()
  .split('\n')
  .slice(1)
  .map((line) => {
    const [file = '', reference = ''] = line.split('\t');
    return { file, path: join(FOLDER, file), reference };
  });

export function speechClip(file: string): SpeechClip {
  const clip = SPEECH.find((one) => one.file === file);
  if (clip === undefined) throw new Error(`${file} is not in test/fixtures/speech`);
  return clip;
}

/** Eleven seconds, 16 kHz. */
export const BASE_CLIP = speechClip('jfk.mp3');

/** Runs ffmpeg, which creates the file named last. */
export async function ffmpeg(...args: string[]): Promise<void> {
  const target = args.at(-1) ?? '';
  await mkdir(dirname(target), { recursive: true });
  await run('ffmpeg', ['-nostdin', '-loglevel', 'error', '-y', ...args]);
}

/** The clips one after the other, 16 kHz mono; the format is that of the target's name. Returns the words in it. */
export async function joinClips(target: string, clips: readonly SpeechClip[]): Promise<string> {
  const inputs = clips.flatMap(({ path }) => ['-i', path]);
  const rates = clips.map((_, at) => `[${at}]aresample=16000,aformat=channel_layouts=mono[a${at}]`);
  const joined = `${clips.map((_, at) => `[a${at}]`).join('')}concat=n=${clips.length}:v=0:a=1`;
  await ffmpeg(...inputs, '-filter_complex', [...rates, joined].join(';'), target);
  return clips.map(({ reference }) => reference).join(' ');
}

/** Speech of a given length: all clips in turn, as often as it takes. */
export async function longSpeech(target: string, seconds: number): Promise<void> {
  const round = `${target}.round.flac`;
  await joinClips(round, SPEECH);
  await ffmpeg('-stream_loop', '-1', '-i', round, '-t', String(seconds), target);
  await rm(round);
}

/** Speech of a given length in files of a given length: `FOLDER/clip-000.wav` and so on. */
export async function shortClips(folder: string, count: number, seconds: number): Promise<void> {
  const whole = join(folder, 'whole.flac');
  await longSpeech(whole, count * seconds);
  const cuts = ['-f', 'segment', '-segment_time', String(seconds), '-c:a', 'pcm_s16le'];
  await ffmpeg('-i', whole, ...cuts, join(folder, 'clip-%03d.wav'));
  await rm(whole);
}

/** At most one word in ten is misheard, or one in a short text. */
export function expectSaid(text: string, reference: string): void {
  const { errors, words } = wordErrors(reference, text);
  expect(errors, `heard: ${text}`).toBeLessThanOrEqual(Math.max(1, words / 10));
}

/** Bytes without any meaning, the same in every run. */
export async function writeNoise(target: string, bytes: number): Promise<void> {
  const noise = Buffer.alloc(bytes);
  let state = 1;
  for (let at = 0; at < bytes; at += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    noise[at] = state >>> 24;
  }
  await mkdir(dirname(target), { recursive: true });
  await writeFile(target, noise);
}

/**
 * Decoding and resampling alone, on one thread: what a worker does before anything is recognized, per format, beside ffmpeg as
 * a process; and which share of a recognized second of audio it is.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import path from 'node:path';
import { NativeEngine } from '../../dist/src/engine/native-engine.js';
import { ffmpeg, prepareLong, RATE } from '../audio.mjs';
import { interleave, ratios } from '../rounds.mjs';
import { audioSpeed, figure, number, ratioRange, table } from '../tables.mjs';
import { audioFor, timeFor } from './contest.mjs';

const STEP_SAMPLES = 30 * RATE;
/** One voice on both sides of a recording; or a quieter one on the right, a while later, so that the sides share nothing. */
const ALIKE = ['-ac', '2'];
const APART = ['-af', 'pan=stereo|c0=c0|c1=0.6*c0,adelay=0|1500'];
const FORMATS = [
  { name: 'WAV, 16 kHz mono', file: 'speech.wav', options: ['-ar', '16000', '-ac', '1'] },
  {
    name: 'FLAC, 48 kHz stereo, sides alike',
    file: 'alike.flac',
    options: [...ALIKE, '-ar', '48000'],
  },
  {
    name: 'FLAC, 48 kHz stereo, sides apart',
    file: 'apart.flac',
    options: [...APART, '-ar', '48000'],
  },
  {
    name: 'MP3, 44.1 kHz stereo, sides alike',
    file: 'alike.mp3',
    options: [...ALIKE, '-ar', '44100'],
  },
  {
    name: 'MP3, 44.1 kHz stereo, sides apart',
    file: 'apart.mp3',
    options: [...APART, '-ar', '44100'],
  },
  {
    name: 'MP3, 22.05 kHz mono',
    file: 'mono.mp3',
    options: ['-ar', '22050', '-ac', '1', '-b:a', '48k'],
  },
];
// Ours, then ffmpeg's.
const planned = {
  speeds: [8_000, 1_900, 1_500, 2_200, 1_800, 2_200, 4_000, 1_300, 1_300, 1_000, 1_000, 2_000],
  overhead: 0.5,
};

function prepareFormats(cache, seconds) {
  const [source] = prepareLong(cache, seconds).files;
  const folder = path.join(path.dirname(source), '../formats', String(seconds));
  mkdirSync(folder, { recursive: true });
  for (const { file, options } of FORMATS) {
    const target = path.join(folder, file);
    if (existsSync(target)) continue;
    const building = path.join(folder, `building-${file}`);
    ffmpeg('-y', '-i', source, ...options, building);
    renameSync(building, target);
  }
  return folder;
}

async function decode(engine, file) {
  const startedAt = performance.now();
  const audio = await engine.openAudio({ kind: 'file', path: file });
  for (let until = STEP_SAMPLES; !audio.ended; until += STEP_SAMPLES) {
    await audio.decodeUntil(until);
    audio.release(audio.endSample);
  }
  await audio.close();
  return { seconds: (performance.now() - startedAt) / 1000 };
}

function decodeWithFfmpeg(file) {
  const args = ['-v', 'error', '-threads', '1', '-i', file, '-ac', '1', '-ar', String(RATE)];
  const { status } = spawnSync('ffmpeg', [...args, '-f', 's16le', '-y', '/dev/null']);
  if (status !== 0) throw new Error(`ffmpeg cannot decode ${file}`);
  return Promise.resolve({});
}

export const decoding = {
  name: 'decode',
  title: 'Decoding and resampling to 16 kHz mono, one thread',
  share: 0.3,
  settings: (seconds, { audioSeconds }) => {
    return { seconds: audioSeconds ?? audioFor(seconds, { ...planned, least: 60, most: 1_800 }) };
  },
  estimate: ({ seconds }, time) => timeFor(seconds, planned, time),
  async measure({ seconds }, { cache, limits }) {
    const folder = prepareFormats(cache, seconds);
    const engine = new NativeEngine();
    const audioSeconds = prepareLong(cache, seconds).seconds;
    const formats = [];
    for (const { name, file } of FORMATS) {
      const source = path.join(folder, file);
      const contestants = [
        { name: 'Wavepool', run: () => decode(engine, source), pids: () => [process.pid] },
        { name: 'ffmpeg', run: () => decodeWithFfmpeg(source) },
      ];
      const results = await interleave(contestants, { ...limits, atMost: limits.rounds ?? 3 });
      const [ours, theirs] = results.map(({ found: _, ...facts }) => ({ ...facts, audioSeconds }));
      formats.push({ name, ours, theirs });
    }
    return { audioSeconds, formats };
  },
  document({ data: { audioSeconds, formats } }) {
    const head = [
      'Format',
      'Audio s per s, ours',
      'CPU s per audio hour, ours',
      'Our speed ÷ that of `ffmpeg -threads 1`',
    ];
    const rows = formats.map(({ name, ours, theirs }) => [
      name,
      number(audioSpeed(ours)),
      number((3600 * figure(ours, 'cpuSeconds')) / audioSeconds),
      ratioRange(ratios(ours, theirs)),
    ]);
    return {
      lines: [`${Math.round(audioSeconds)} s of speech.`, '', ...table(head, rows)],
      charts: {},
    };
  },
};

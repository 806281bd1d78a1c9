/**
 * The audio that everybody is measured on: clips of 3–12 s, cut from the shipped readings by a seeded generator, as
 * 16 kHz mono 16-bit WAV, the one format that every peer reads without a conversion of its own.
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

export const RATE = 16_000;
const SHORTEST_SECONDS = 3;
const LONGEST_SECONDS = 12;

/** mulberry32: small, seeded, the same everywhere. */
export function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function decodeReading(file) {
  const arguments_ = [
    '-v',
    'error',
    '-i',
    file,
    '-ac',
    '1',
    '-ar',
    String(RATE),
    '-f',
    's16le',
    '-',
  ];
  const { stdout, status, stderr } = spawnSync('ffmpeg', arguments_, { maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`ffmpeg cannot decode ${file}: ${stderr}`);
  return stdout;
}

export function wavFile(pcm) {
  const header = Buffer.alloc(44);
  header.write('RIFF', 0, 'latin1');
  header.writeUInt32LE(36 + pcm.length, 4);
  header.write('WAVEfmt ', 8, 'latin1');
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(RATE, 24);
  header.writeUInt32LE(RATE * 2, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36, 'latin1');
  header.writeUInt32LE(pcm.length, 40);
  return Buffer.concat([header, pcm]);
}

/** All readings, one after the other, with a second of silence between them. */
function readings(speech) {
  const files = readdirSync(speech)
    .filter((name) => /\.(flac|mp3|wav)$/.test(name))
    .sort();
  const silence = Buffer.alloc(RATE * 2);
  return Buffer.concat(files.flatMap((name) => [decodeReading(path.join(speech, name)), silence]));
}

/** Makes the clips once; returns the folder, the files and their seconds. */
export function prepareClips({ speech, folder, count, seed = 7 }) {
  const target = path.join(folder, `clips-${count}-${seed}`);
  const list = path.join(target, 'clips.json');
  if (!existsSync(list)) {
    const building = `${target}.building`;
    rmSync(building, { recursive: true, force: true });
    mkdirSync(building, { recursive: true });
    const pcm = readings(speech);
    const random = seeded(seed);
    const clips = Array.from({ length: count }, (_, index) => {
      const seconds = SHORTEST_SECONDS + random() * (LONGEST_SECONDS - SHORTEST_SECONDS);
      const bytes = Math.round(seconds * RATE) * 2;
      const start = Math.floor((random() * (pcm.length - bytes)) / 2) * 2;
      const name = `clip-${String(index).padStart(4, '0')}.wav`;
      writeFileSync(path.join(building, name), wavFile(pcm.subarray(start, start + bytes)));
      return { name, seconds: bytes / 2 / RATE };
    });
    writeFileSync(path.join(building, 'clips.json'), JSON.stringify(clips));
    rmSync(target, { recursive: true, force: true });
    renameSync(building, target);
  }
  const clips = JSON.parse(readFileSync(list, 'utf8'));
  return {
    folder: target,
    files: clips.map(({ name }) => path.join(target, name)),
    seconds: clips.reduce((sum, clip) => sum + clip.seconds, 0),
  };
}

/**
 * The audio that everybody is measured on: made from the shipped readings by a seeded generator, as 16 kHz mono 16-bit WAV,
 * the one format that every peer reads without a conversion of its own. Every word of it is known, so a word error rate
 * can be told of the very audio that is timed.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

export const RATE = 16_000;
export const SPEECH = path.resolve(import.meta.dirname, '../test/fixtures/speech');
const BYTES_PER_SECOND = 2 * RATE;
const SEED = 7;
/** Clips differ in loudness: the same bytes never come twice. */
const QUIETEST = 0.6;
/** Changes when the audio does: what was made before is made again. */
const VERSION = 1;

/**
 * Where a reader pauses: seconds, and words of the reference said by then. Readings without an entry are short and taken as
 * a whole.
 */
const PAUSES = new Map([
  [
    'jfk.mp3',
    [
      [0, 0],
      [7.9, 14],
      [11, 22],
    ],
  ],
  [
    'two-cities-48k.flac',
    [
      [0.4, 0],
      [4.8, 12],
      [8.4, 24],
      [13.1, 36],
      [17.1, 48],
      [20.8, 60],
      [24.3, 70],
      [28.7, 85],
      [32.5, 96],
      [36.8, 107],
      [42.5, 119],
    ],
  ],
]);

/** mulberry32: small, seeded, the same everywhere. */
function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function ffmpeg(...args) {
  const { stdout, status, stderr, error } = spawnSync('ffmpeg', ['-v', 'error', ...args], {
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`ffmpeg ${args.join(' ')}: ${error ?? stderr}`);
  return stdout;
}

function decodeReading(file) {
  return ffmpeg('-i', file, '-ac', '1', '-ar', String(RATE), '-f', 's16le', '-');
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

/** By file name: samples as 16-bit PCM, words of the reference. */
function openReadings() {
  const [, ...lines] = readFileSync(path.join(SPEECH, 'transcripts.tsv'), 'utf8')
    .trim()
    .split('\n');
  return new Map(
    lines.map((line) => {
      const [file, reference] = line.split('\t');
      return [file, { pcm: decodeReading(path.join(SPEECH, file)), words: reference.split(' ') }];
    }),
  );
}

function passage({ pcm, words }, [from, firstWord], [to, endWord]) {
  const byte = (seconds) => 2 * Math.round(seconds * RATE);
  const cut = pcm.subarray(byte(from), byte(to));
  return {
    pcm: cut,
    reference: words.slice(firstWord, endWord).join(' '),
    seconds: cut.length / BYTES_PER_SECOND,
  };
}

/** Everything that can be cut from pause to pause, between two lengths. */
function passages(readings, shortest, longest) {
  const all = [...readings].flatMap(([file, reading]) => {
    const { pcm, words } = reading;
    const end = [pcm.length / BYTES_PER_SECOND, words.length];
    const pauses = PAUSES.get(file) ?? [[0, 0], end];
    return pauses.flatMap((from, at) =>
      pauses.slice(at + 1).map((to) => passage(reading, from, to)),
    );
  });
  return all.filter(({ seconds }) => seconds >= shortest && seconds <= longest);
}

function louder(pcm, factor) {
  const scaled = Buffer.alloc(pcm.length);
  for (let i = 0; i < pcm.length; i += 2) {
    scaled.writeInt16LE(Math.round(pcm.readInt16LE(i) * factor), i);
  }
  return scaled;
}

/** Endlessly, every item once per turn, each turn in another order. */
function* shuffled(items, random) {
  for (;;) {
    const left = [...items];
    while (left.length > 0) yield left.splice(Math.floor(random() * left.length), 1)[0];
  }
}

/** Has `make` fill the folder once; what it returns is kept beside the audio. */
function prepareFolder(cache, name, make) {
  const target = path.join(cache, `audio-${VERSION}`, name);
  const list = path.join(target, 'audio.json');
  if (!existsSync(list)) {
    const building = `${target}.building`;
    rmSync(building, { recursive: true, force: true });
    mkdirSync(building, { recursive: true });
    writeFileSync(path.join(building, 'audio.json'), JSON.stringify(make(building)));
    rmSync(target, { recursive: true, force: true });
    renameSync(building, target);
  }
  const made = JSON.parse(readFileSync(list, 'utf8'));
  return {
    folder: target,
    names: made.map(({ name: file }) => file),
    files: made.map(({ name: file }) => path.join(target, file)),
    references: made.map(({ reference }) => reference),
    seconds: made.reduce((sum, { seconds }) => sum + seconds, 0),
  };
}

function write(folder, name, { pcm, reference }) {
  writeFileSync(path.join(folder, name), wavFile(pcm));
  return { name, reference, seconds: pcm.length / BYTES_PER_SECOND };
}

const numbered = (what, index) => `${what}-${String(index).padStart(5, '0')}.wav`;

/** So many clips of 3–12 s, from pause to pause. */
export function prepareClips(cache, count) {
  return prepareFolder(cache, `clips-${count}`, (folder) => {
    const random = seeded(SEED);
    const order = shuffled(passages(openReadings(), 3, 12.5), random);
    return Array.from({ length: count }, (_, index) => {
      const { pcm, reference } = order.next().value;
      const factor = QUIETEST + random() * (1 - QUIETEST);
      return write(folder, numbered('clip', index), { pcm: louder(pcm, factor), reference });
    });
  });
}

/** Passages with half a second between them, at least so many seconds; returned with their words. */
function speak(order, random, seconds, pause = BYTES_PER_SECOND / 2) {
  const silence = Buffer.alloc(pause);
  const parts = [];
  const references = [];
  for (let bytes = 0; bytes < seconds * BYTES_PER_SECOND; ) {
    const { pcm, reference } = order.next().value;
    parts.push(louder(pcm, QUIETEST + random() * (1 - QUIETEST)), silence);
    references.push(reference);
    bytes += pcm.length + silence.length;
  }
  return { pcm: Buffer.concat(parts), reference: references.join(' ') };
}

/** Files whose lengths are spread evenly on a logarithmic scale from about 2 to about 60 s, so many seconds together. */
export function prepareMixed(cache, seconds) {
  return prepareFolder(cache, `mixed-${seconds}`, (folder) => {
    const random = seeded(SEED);
    const order = shuffled(passages(openReadings(), 1, 5), random);
    const files = [];
    for (let sum = 0; sum < seconds; ) {
      const length = 1 + Math.exp(random() * Math.log(56));
      const file = write(
        folder,
        numbered('mixed', files.length),
        speak(order, random, Math.max(1, length - 3)),
      );
      files.push(file);
      sum += file.seconds;
    }
    return files;
  });
}

/** One file of at least so many seconds: whole readings, a second of silence after each. */
export function prepareLong(cache, seconds) {
  return prepareFolder(cache, `long-${seconds}`, (folder) => {
    const random = seeded(SEED);
    const whole = [...openReadings().values()].map(({ pcm, words }) => {
      return { pcm, reference: words.join(' ') };
    });
    const order = shuffled(whole, random);
    return [write(folder, 'long.wav', speak(order, random, seconds, BYTES_PER_SECOND))];
  });
}

/** So many minutes in which nobody speaks, a file each: faint noise, as a line without a caller has it. */
export function prepareSilence(cache, count) {
  return prepareFolder(cache, `silence-${count}`, (folder) => {
    const random = seeded(SEED);
    return Array.from({ length: count }, (_, index) => {
      const pcm = Buffer.alloc(60 * BYTES_PER_SECOND);
      for (let i = 0; i < pcm.length; i += 2) {
        pcm.writeInt16LE(Math.round((random() - 0.5) * 40), i);
      }
      return write(folder, numbered('silence', index), { pcm, reference: '' });
    });
  });
}

/** So many files of zeros, as a muted channel has them. */
export function prepareZeros(cache, count, seconds = 60) {
  return prepareFolder(cache, `zeros-${count}-${seconds}`, (folder) => {
    const pcm = Buffer.alloc(seconds * BYTES_PER_SECOND);
    return Array.from({ length: count }, (_, index) =>
      write(folder, numbered('zeros', index), { pcm, reference: '' }),
    );
  });
}

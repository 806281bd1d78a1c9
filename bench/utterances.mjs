/**
 * Speech of which every word is known, so that a word error rate can be told of the very audio that is timed: utterances of
 * 3–8 s, cut from the shipped readings in the middle of pauses, and one long recording made of whole readings.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { decodeReading, RATE, seeded, wavFile } from './clips.mjs';

const SEED = 7;
const BYTES_PER_SECOND = 2 * RATE;
/** Clips differ in loudness: the same bytes never come twice. */
const QUIETEST = 0.6;

/** Reading, seconds from and to, first and last word of its reference counted from 0. */
const UTTERANCES = [
  ['sense-0870.flac'],
  ['sense-0880.flac'],
  ['sense-0890.flac'],
  ['sense-0920.flac'],
  ['sense-0930.flac'],
  ['jfk.mp3', 0, 7.9, 0, 13],
  ['jfk.mp3', 7.9, 11, 14, 21],
  ['two-cities-48k.flac', 0.4, 4.8, 0, 11],
  ['two-cities-48k.flac', 0.4, 8.4, 0, 23],
  ['two-cities-48k.flac', 4.8, 8.4, 12, 23],
  ['two-cities-48k.flac', 8.4, 13.1, 24, 35],
  ['two-cities-48k.flac', 13.1, 17.1, 36, 47],
  ['two-cities-48k.flac', 13.1, 20.8, 36, 59],
  ['two-cities-48k.flac', 17.1, 20.8, 48, 59],
  ['two-cities-48k.flac', 17.1, 24.3, 48, 69],
  ['two-cities-48k.flac', 20.8, 24.3, 60, 69],
  ['two-cities-48k.flac', 24.3, 28.7, 70, 84],
  ['two-cities-48k.flac', 28.7, 32.5, 85, 95],
  ['two-cities-48k.flac', 32.5, 36.8, 96, 106],
  ['two-cities-48k.flac', 32.5, 38.5, 96, 111],
  ['two-cities-48k.flac', 36.8, 42.5, 107, 118],
  ['two-cities-48k.flac', 38.5, 42.5, 112, 118],
];

function readReferences(speech) {
  const [, ...lines] = readFileSync(path.join(speech, 'transcripts.tsv'), 'utf8')
    .trim()
    .split('\n');
  return new Map(lines.map((line) => line.split('\t')));
}

/** What the readings hold, by file name: samples as 16-bit PCM, words of the reference. */
function openReadings(speech) {
  const readings = new Map();
  for (const [file, reference] of readReferences(speech)) {
    readings.set(file, {
      pcm: decodeReading(path.join(speech, file)),
      words: reference.split(' '),
    });
  }
  return readings;
}

function cut(readings, [file, from = 0, to, firstWord = 0, lastWord]) {
  const { pcm, words } = readings.get(file);
  const byte = (seconds) => 2 * Math.round(seconds * RATE);
  return {
    pcm: pcm.subarray(byte(from), to === undefined ? pcm.length : byte(to)),
    reference: words.slice(firstWord, lastWord === undefined ? undefined : lastWord + 1).join(' '),
  };
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
function prepareFolder(target, make) {
  const list = path.join(target, 'references.json');
  if (!existsSync(list)) {
    const building = `${target}.building`;
    rmSync(building, { recursive: true, force: true });
    mkdirSync(building, { recursive: true });
    writeFileSync(path.join(building, 'references.json'), JSON.stringify(make(building)));
    rmSync(target, { recursive: true, force: true });
    renameSync(building, target);
  }
  const made = JSON.parse(readFileSync(list, 'utf8'));
  return {
    folder: target,
    names: made.map(({ name }) => name),
    files: made.map(({ name }) => path.join(target, name)),
    references: made.map(({ reference }) => reference),
    seconds: made.reduce((sum, { seconds }) => sum + seconds, 0),
  };
}

/** So many utterances, a file each. */
export function prepareUtterances({ speech, folder, count }) {
  return prepareFolder(path.join(folder, `utterances-${count}`), (building) => {
    const readings = openReadings(speech);
    const random = seeded(SEED);
    const order = shuffled(UTTERANCES, random);
    return Array.from({ length: count }, (_, index) => {
      const { pcm, reference } = cut(readings, order.next().value);
      const name = `utterance-${String(index).padStart(4, '0')}.wav`;
      const factor = QUIETEST + random() * (1 - QUIETEST);
      writeFileSync(path.join(building, name), wavFile(louder(pcm, factor)));
      return { name, reference, seconds: pcm.length / BYTES_PER_SECOND };
    });
  });
}

/** One file of at least so many seconds: whole readings, a second of silence after each. */
export function prepareLong({ speech, folder, seconds }) {
  return prepareFolder(path.join(folder, `long-${seconds}`), (building) => {
    const readings = openReadings(speech);
    const random = seeded(SEED);
    const order = shuffled([...readings.values()], random);
    const silence = Buffer.alloc(BYTES_PER_SECOND);
    const parts = [];
    const references = [];
    for (let bytes = 0; bytes < seconds * BYTES_PER_SECOND; ) {
      const { pcm, words } = order.next().value;
      parts.push(louder(pcm, QUIETEST + random() * (1 - QUIETEST)), silence);
      references.push(words.join(' '));
      bytes += pcm.length + silence.length;
    }
    const pcm = Buffer.concat(parts);
    writeFileSync(path.join(building, 'long.wav'), wavFile(pcm));
    return [
      { name: 'long.wav', reference: references.join(' '), seconds: pcm.length / BYTES_PER_SECOND },
    ];
  });
}

/** Recordings of many segments: stretches of noise, which the fake detector takes for speech, with silence between. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Of telephones, one byte a sample: six hours are 172 MB. */
const RATE = 8_000;
const HEADER_BYTES = 44;
const STRETCH_SECONDS = 8;
/** Longer than any pause inside a segment. */
const PAUSE_SECONDS = 2;

/** A WAV file of so many stretches of eight seconds. @returns its path */
export function writeSpacedRecording(folder: string, stretches: number, seed: number): string {
  const path = join(folder, `spaced-${stretches}-${seed}.wav`);
  const seconds = stretches * (STRETCH_SECONDS + PAUSE_SECONDS);
  const data = Buffer.alloc(seconds * RATE, 128);
  let state = seed;
  for (let stretch = 0; stretch < stretches; stretch += 1) {
    const from = stretch * (STRETCH_SECONDS + PAUSE_SECONDS) * RATE;
    for (let at = from; at < from + STRETCH_SECONDS * RATE; at += 1) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      data[at] = state >>> 24;
    }
  }
  writeFileSync(path, Buffer.concat([wavHeader(data.length), data]));
  return path;
}

function wavHeader(dataBytes: number): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.write('RIFF', 0);
  header.writeUInt32LE(36 + dataBytes, 4);
  header.write('WAVEfmt ', 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(RATE, 24);
  header.writeUInt32LE(RATE, 28);
  header.writeUInt16LE(1, 32);
  header.writeUInt16LE(8, 34);
  header.write('data', 36);
  header.writeUInt32LE(dataBytes, 40);
  return header;
}

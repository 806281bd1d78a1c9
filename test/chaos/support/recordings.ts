/** Recordings whose transcripts are known: what the fake recognizer says follows from the samples. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeWav } from '../../engine/fake-model.ts';

const WAV_HEADER_BYTES = 44;
const MASK = (1n << 64n) - 1n;

export interface Recording {
  readonly path: string;
  readonly text: string;
}

/** The text of the fake family for these samples: see native/tests/support/fake_family.cpp. */
function fakeText(wav: Buffer): string {
  const samples = (wav.length - WAV_HEADER_BYTES) / 2;
  const bits = new DataView(new ArrayBuffer(4));
  let hash = 14_695_981_039_346_656_037n;
  for (let at = 0; at < samples; at += 1) {
    bits.setFloat32(0, wav.readInt16LE(WAV_HEADER_BYTES + 2 * at) / 32_768);
    hash = ((hash ^ BigInt(bits.getUint32(0))) * 1_099_511_628_211n) & MASK;
  }
  return `fake ${hash.toString(16).padStart(16, '0')} ${samples}`;
}

/** Noise, which the fake detector takes for speech. */
export function makeRecording(folder: string, seconds: number, seed: number): Recording {
  const path = writeWav(join(folder, `${seconds}s-${seed}.wav`), seconds, seed);
  return { path, text: fakeText(readFileSync(path)) };
}

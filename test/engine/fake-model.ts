/** Inputs for tests of the engine: the model files of the fake families, written as GGUF v3, and WAV files. */
import { writeFileSync } from 'node:fs';

const ALIGNMENT = 32;

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const f32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
};
const text = (value: string): Buffer => {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([u64(bytes.length), bytes]);
};

const UINT32 = 4;
const FLOAT32 = 6;
const STRING = 8;

export interface FakeModel {
  readonly architecture?: 'fake' | 'fake-vad';
  /** Sessions that the family advertises. */
  readonly capacity?: number;
  readonly nativeBatch?: boolean;
  readonly maxSegmentSeconds?: number;
  /** What it then has of languages, words, translation and prompt is in native/tests/support/fake_family.h. */
  readonly languages?: readonly string[];
}

/** Writes the model file of a fake family (native/tests/support/fake_family.h) and returns its path. */
export function writeFakeModel(file: string, model: FakeModel = {}): string {
  const architecture = model.architecture ?? 'fake';
  const metadata = [
    [text('general.architecture'), u32(STRING), text(architecture)],
    [text('general.name'), u32(STRING), text(`${architecture} for tests`)],
    [text('fake.capacity'), u32(UINT32), u32(model.capacity ?? 4)],
    [text('fake.native_batch'), u32(UINT32), u32(model.nativeBatch === false ? 0 : 1)],
    [text('fake.max_segment_seconds'), u32(FLOAT32), f32(model.maxSegmentSeconds ?? 30)],
    ...(model.languages === undefined
      ? []
      : [[text('fake.languages'), u32(STRING), text(model.languages.join(','))]]),
  ];
  const header = Buffer.concat([
    Buffer.from('GGUF'),
    u32(3),
    u64(1),
    u64(metadata.length),
    ...metadata.flat(),
    // One tensor: its name, one dimension of 4, type f32, offset 0.
    text('fake.weight'),
    u32(1),
    u64(4),
    u32(0),
    u64(0),
  ]);
  const padding = Buffer.alloc((ALIGNMENT - (header.length % ALIGNMENT)) % ALIGNMENT);
  writeFileSync(file, Buffer.concat([header, padding, f32(1), f32(2), f32(3), f32(4)]));
  return file;
}

type Sizes = 'sizes' | 'unknown size';

/** 16 kHz mono 16-bit WAV of deterministic noise; a pipe has 0xffffffff where its writer cannot know a size. */
function wavBytes(seconds: number, seed: number, sizes: Sizes): Buffer {
  const samples = Math.round(seconds * 16_000);
  const data = Buffer.alloc(samples * 2);
  let state = seed;
  for (let i = 0; i < samples; i += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    data.writeInt16LE((state >>> 16) - 32_768, i * 2);
  }
  const header = Buffer.alloc(44);
  header.write('RIFF', 0);
  const known = sizes === 'sizes';
  header.writeUInt32LE(known ? 36 + data.length : 0xffff_ffff, 4);
  header.write('WAVEfmt ', 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(16_000, 24);
  header.writeUInt32LE(32_000, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36);
  header.writeUInt32LE(known ? data.length : 0xffff_ffff, 40);
  return Buffer.concat([header, data]);
}

export function writeWav(file: string, seconds: number, seed = 1, sizes: Sizes = 'sizes'): string {
  writeFileSync(file, wavBytes(seconds, seed, sizes));
  return file;
}

/**
 * Every reader of model files over thousands of damaged ones: seeded changes of small files of the right shape. Each ends in
 * success or in MODEL_FILE_INVALID, and asks for no more memory than the file has bytes.
 */
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ZipFile } from 'yazl';
import { WavepoolError } from '../../../src/core/errors.ts';
import { sileroVadConverter } from '../../../src/models/convert/silero-vad.ts';
import { whisperTokens } from '../../../src/models/convert/whisper-tokens.ts';
import { type ByteSource, MemoryBytes } from '../../../src/models/files/byte-source.ts';
import { readCTranslate2 } from '../../../src/models/files/ctranslate2-reader.ts';
import { readWhisperFile } from '../../../src/models/files/ggml-whisper-file.ts';
import { readGgufIndex } from '../../../src/models/files/gguf-reader.ts';
import { writeGguf } from '../../../src/models/files/gguf-writer.ts';
import { readOnnx } from '../../../src/models/files/onnx-reader.ts';
import { readSafetensorsIndex } from '../../../src/models/files/safetensors-reader.ts';
import { extractZipEntry, readZipEntries } from '../../../src/models/files/zip-reader.ts';
import { cTranslate2Bytes, writeSmallWhisper } from '../convert/whisper-bytes.ts';
import { graph, model, node, RAW_DATA, tensor } from './onnx-bytes.ts';

vi.setConfig({ testTimeout: 60_000 });

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-fuzz-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** The same numbers on every machine. */
function random(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c_1b_3c_6d) + 0x9e_37_79_b9) >>> 0;
    return Math.floor((((state ^ (state >>> 13)) >>> 0) / 2 ** 32) * below);
  };
}

const NASTY = [0, 1, 0x7f, 0x80, 0xff, 0x7f_ff, 0xff_ff, 0x7f_ff_ff_ff, 0xff_ff_ff_ff, 0x1_00_00];

/** One to four changes in the first `reach` bytes or the last ones, or a cut. */
function mutate(bytes: Buffer, below: (most: number) => number, reach: number): Buffer {
  if (below(8) === 0) return Buffer.from(bytes.subarray(0, below(bytes.length)));
  const changed = Buffer.from(bytes);
  for (let times = 1 + below(4); times > 0; times--) {
    const span = Math.min(reach, bytes.length - 4);
    const at = below(4) === 0 ? bytes.length - 4 - below(span) : below(span);
    const kind = below(3);
    if (kind === 0) changed[at] = below(256);
    else if (kind === 1) changed.writeUInt32LE(NASTY[below(NASTY.length)] ?? 0, at);
    else changed[at] = (changed[at] ?? 0) ^ (1 << below(8));
  }
  return changed;
}

async function survives(
  bytes: Buffer,
  { rounds, reach, seed }: { rounds: number; reach: number; seed: number },
  parse: (source: ByteSource, bytes: Buffer) => Promise<unknown>,
): Promise<void> {
  const below = random(seed);
  const before = process.memoryUsage().arrayBuffers;
  let refused = 0;
  let most = 0;
  for (let round = 0; round < rounds; round++) {
    const mutated = mutate(bytes, below, reach);
    try {
      await parse(new MemoryBytes('fuzzed', mutated), mutated);
    } catch (thrown) {
      if (!(thrown instanceof WavepoolError) || thrown.code !== 'MODEL_FILE_INVALID') {
        throw new Error(`round ${round} of seed ${seed}`, { cause: thrown });
      }
      refused++;
    }
    most = Math.max(most, process.memoryUsage().arrayBuffers - before);
  }
  expect(refused).toBeGreaterThan(rounds / 10);
  // The collector comes late; a length that was believed would be hundreds of times as much.
  expect(most).toBeLessThan(512 * 2 ** 20);
}

test('ONNX', async () => {
  const weights = (name: string) => tensor(name, [8], 1, [RAW_DATA, new Uint8Array(32)]);
  const bytes = Buffer.from(
    model(graph([node('MatMul', 'multiply', ['a', 'b'], ['c'])], [weights('a'), weights('b')])),
  );
  await survives(bytes, { rounds: 3_000, reach: bytes.length, seed: 1 }, async (_, mutated) => {
    readOnnx(mutated, 'fuzzed');
    const input = { id: 'x', license: 'x', source: 'x', locate: (name: string) => name };
    await sileroVadConverter.convert({ ...input, read: () => Promise.resolve(mutated) });
  });
});

test('GGUF', async () => {
  const file = path.join(folder, 'model.gguf');
  const tensors = [1, 2, 3].map((index) => {
    return { name: `t${index}`, shape: [4, 8], type: 'f32', data: new Float32Array(32) } as const;
  });
  const metadata = new Map([
    ['general.architecture', { type: 'string', value: 'silero-vad' }],
    ['tokens', { type: 'strings', value: ['a', 'bc', 'def'] }],
    ['count', { type: 'u32', value: 7 }],
  ] as const);
  await writeGguf(file, { metadata, tensors });
  const bytes = await readFile(file);
  await survives(bytes, { rounds: 3_000, reach: 300, seed: 2 }, readGgufIndex);
});

test('Safetensors', async () => {
  const entry = { dtype: 'F32', shape: [2, 4], data_offsets: [0, 32] };
  const header = Buffer.from(JSON.stringify({ a: entry, __metadata__: { format: 'pt' } }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const bytes = Buffer.concat([length, header, Buffer.alloc(32)]);
  await survives(bytes, { rounds: 3_000, reach: bytes.length, seed: 3 }, readSafetensorsIndex);
});

test('CTranslate2', async () => {
  // Without the large embeddings: every name, rank and length is within reach.
  const bytes = cTranslate2Bytes((variables) =>
    variables.filter(([name]) => !/embeddings|conv|ffn/.test(name)),
  );
  await survives(bytes, { rounds: 1_500, reach: 40_000, seed: 4 }, readCTranslate2);
});

test('ggml Whisper', async () => {
  const file = path.join(folder, 'small.bin');
  await writeSmallWhisper(file);
  const bytes = await readFile(file);
  await survives(bytes, { rounds: 60, reach: 70_000, seed: 5 }, readWhisperFile);
  await survives(bytes, { rounds: 30, reach: 120, seed: 6 }, readWhisperFile);
  // Behind the tokens: where the headers of the tensors are.
  const tokens = 48 + 8 + 80 * 201 * 4 + 4 + 50_257 * 4 + 240_000;
  const below = random(7);
  for (let round = 0; round < 30; round++) {
    const changed = Buffer.from(bytes);
    changed.writeUInt32LE(NASTY[below(NASTY.length)] ?? 0, tokens + below(3_000));
    await readWhisperFile(new MemoryBytes('fuzzed', changed)).catch((thrown: unknown) => {
      expect(thrown).toMatchObject({ code: 'MODEL_FILE_INVALID' });
    });
  }
});

test('tokenizer.json', async () => {
  const bytes = Buffer.from(JSON.stringify({ model: { vocab: { a: 0, b: 1, Ġ: 2 } } }));
  await survives(bytes, { rounds: 1_000, reach: bytes.length, seed: 8 }, (_, mutated) => {
    try {
      return Promise.resolve(whisperTokens(mutated, 'fuzzed'));
    } catch (thrown) {
      return Promise.reject(thrown instanceof Error ? thrown : new Error('no error'));
    }
  });
});

test('a wheel', async () => {
  const zip = new ZipFile();
  zip.addBuffer(Buffer.alloc(5_000, 'abc'), 'package/model.bin');
  zip.addBuffer(Buffer.from('stored'), 'package/small.txt', { compress: false });
  zip.end();
  const bytes = await buffer(zip.outputStream);
  const file = path.join(folder, 'archive.whl');
  await survives(bytes, { rounds: 500, reach: bytes.length, seed: 9 }, async (source, mutated) => {
    const entries = await readZipEntries(source);
    const [entry] = entries.values();
    // What an entry says of itself is believed only up to what the catalogue expects.
    if (entry === undefined || entry.bytes > 10_000) return;
    await writeFile(file, mutated);
    await extractZipEntry(file, source, entry, path.join(folder, 'extracted'));
  });
});

test('a zip that would fill the disk stops at the size that was announced', async () => {
  const zip = new ZipFile();
  zip.addBuffer(Buffer.alloc(50_000_000), 'bomb');
  zip.end();
  const bytes = await buffer(zip.outputStream);
  const file = path.join(folder, 'bomb.zip');
  await writeFile(file, bytes);
  const source = new MemoryBytes('bomb.zip', bytes);
  const entry = (await readZipEntries(source)).get('bomb');
  if (entry === undefined) throw new Error('no entry');
  const target = path.join(folder, 'unpacked');
  await expect(
    extractZipEntry(file, source, { ...entry, bytes: 1_000 }, target),
  ).rejects.toMatchObject({ code: 'MODEL_FILE_INVALID' });
  expect((await stat(target)).size).toBeLessThanOrEqual(1_000);
});

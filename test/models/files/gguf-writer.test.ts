import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  type GgufContents,
  type GgufTensor,
  writeGguf,
} from '../../../src/models/files/gguf-writer.ts';
import { readGguf } from './read-gguf.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-gguf-'));
});
afterEach(() => rm(folder, { recursive: true }));

const contents: GgufContents = {
  metadata: new Map([
    ['general.architecture', { type: 'string', value: 'test' }],
    ['test.count', { type: 'u32', value: 4_294_967_295 }],
    ['test.rate', { type: 'f32', value: 0.5 }],
    ['test.flag', { type: 'bool', value: true }],
    ['test.pieces', { type: 'strings', value: ['', '▁spaced', '\u2028'] }],
  ]),
  tensors: [
    { name: 'matrix', shape: [2, 3], type: 'i8', data: Int8Array.of(-128, -1, 0, 1, 2, 127) },
    { name: 'vector', shape: [3], type: 'f32', data: Float32Array.of(1.5, -0, 3) },
    { name: 'half', shape: [1, 2, 1], type: 'f16', data: Uint16Array.of(0x3c00, 0xbc00) },
  ],
};

test('a file holds the metadata and tensors that were written', async () => {
  const file = path.join(folder, 'model.gguf');
  const written = await writeGguf(file, contents);
  const bytes = await readFile(file);
  const read = readGguf(bytes);

  expect(written.bytes).toBe(bytes.length);
  expect(read.version).toBe(3);
  expect(Object.fromEntries(read.metadata)).toEqual({
    'general.architecture': 'test',
    'test.count': 4_294_967_295,
    'test.rate': 0.5,
    'test.flag': true,
    'test.pieces': ['', '▁spaced', '\u2028'],
  });
  expect([...read.tensors].map(([name, { dimensions, type }]) => [name, dimensions, type])).toEqual(
    [
      ['matrix', [3, 2], 24],
      ['vector', [3], 0],
      ['half', [1, 2, 1], 1],
    ],
  );
  expect([...(read.tensors.get('matrix')?.data ?? [])]).toEqual([128, 255, 0, 1, 2, 127]);
  expect(read.tensors.get('vector')?.data.toString('hex')).toBe('0000c03f0000008000004040');
  expect(read.tensors.get('half')?.data.toString('hex')).toBe('003c00bc');
});

test('every tensor and the end of the file lie on multiples of 32 bytes', async () => {
  const file = path.join(folder, 'model.gguf');
  const { bytes } = await writeGguf(file, contents);
  const offsets = [...readGguf(await readFile(file)).tensors.values()].map(({ offset }) => offset);
  expect([...offsets, bytes].map((position) => position % 32)).toEqual([0, 0, 0, 0]);
});

test('equal contents give equal bytes and the hash is that of the file', async () => {
  const first = await writeGguf(path.join(folder, 'a.gguf'), contents);
  const second = await writeGguf(path.join(folder, 'b.gguf'), contents);
  expect(second).toEqual(first);
  const bytes = await readFile(path.join(folder, 'a.gguf'));
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(first.sha256);
});

const unreadable: [string, GgufTensor][] = [
  [
    'whose shape does not fit its data',
    { name: 'a', shape: [2], type: 'i8', data: Int8Array.of(1) },
  ],
  ['without dimensions', { name: 'a', shape: [], type: 'i8', data: Int8Array.of(1) }],
  ['of five dimensions', { name: 'a', shape: [1, 1, 1, 1, 1], type: 'i8', data: Int8Array.of(1) }],
  [
    'with a name of 64 bytes',
    { name: 'n'.repeat(64), shape: [1], type: 'i8', data: Int8Array.of(1) },
  ],
];
for (const [what, tensor] of unreadable) {
  test(`a tensor ${what} is refused and the old file stays as it was`, async () => {
    const file = path.join(folder, 'model.gguf');
    await writeFile(file, 'old');
    const broken = { metadata: new Map(), tensors: [tensor] };
    await expect(writeGguf(file, broken)).rejects.toThrow(RangeError);
    expect(await readdir(folder)).toEqual(['model.gguf']);
    expect(await readFile(file, 'utf8')).toBe('old');
  });
}

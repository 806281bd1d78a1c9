import { expect, test } from 'vitest';
import { type PcmEncoding, readPcm } from '../../../src/worker/live/pcm-reader.ts';

async function read(pieces: readonly Uint8Array[], encoding?: PcmEncoding): Promise<number[][]> {
  const found = [];
  for await (const samples of readPcm(pieces, encoding)) found.push([...samples]);
  return found;
}

function cut(bytes: Uint8Array, size: number): Uint8Array[] {
  const count = Math.ceil(bytes.length / size);
  return Array.from({ length: count }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
}

const INTEGERS = Int16Array.of(1, -2, 300, -32_768, 32_767, 6);
const FLOATS = Float32Array.of(0.5, -1, 0, 0.25);

test('bytes become the same samples wherever they are cut', async () => {
  for (const [samples, sampleFormat] of [
    [INTEGERS, 's16le'],
    [FLOATS, 'f32le'],
  ] as const) {
    const bytes = new Uint8Array(samples.buffer);
    for (const size of [1, 3, 5, 100]) {
      expect((await read(cut(bytes, size), { sampleFormat })).flat()).toEqual([...samples]);
    }
  }
});

test('each piece holds whole frames', async () => {
  const pieces = await read(cut(new Uint8Array(INTEGERS.buffer), 5), { channels: 3 });
  expect(pieces).toEqual([
    [1, -2, 300],
    [-32_768, 32_767, 6],
  ]);
});

test('bytes that end within a frame are an error', async () => {
  const bytes = new Uint8Array(INTEGERS.buffer).subarray(0, 5);
  await expect(read([bytes])).rejects.toMatchObject({ code: 'INPUT_UNDECODABLE' });
  expect(await read([])).toEqual([]);
});

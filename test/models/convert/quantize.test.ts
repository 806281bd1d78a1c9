import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { QUANTIZATIONS } from '../../../src/models/catalogue/quantization.ts';
import { quantize } from '../../../src/models/convert/quantize.ts';
import { halfBits, halfValues } from '../../../src/models/files/half-float.ts';

/**
 * Eight blocks and what quantize_row_*_ref of ggml 0.15.1 make of them, compiled with gcc 12 -O2: zeros, one value 32
 * times, ties, values whose scale is subnormal, large ones, and three of no particular kind.
 */
const fixture: unknown = JSON.parse(
  await readFile(new URL('../fixtures/ggml-blocks.json', import.meta.url), 'utf8'),
);
const blocks = new Map<string, unknown>(Object.entries(fixture ?? {}));

for (const type of QUANTIZATIONS) {
  test(`${type} gives the bytes of ggml's reference`, () => {
    const values = Float32Array.from(blocks.get('values') as number[]);
    expect(quantize(values, type).toString('hex')).toBe(blocks.get(type));
  });
}

test('every half is the half of its own value', () => {
  const values = halfValues();
  const wrong = [...values.keys()].filter(
    (bits) => !Number.isNaN(values[bits]) && halfBits(values[bits] ?? 0) !== bits,
  );
  expect(wrong).toEqual([]);
});

test('a value between two halves goes to the nearer one, and a tie to the even one', () => {
  const up = 2 ** -11;
  expect(halfBits(1 + up)).toBe(0x3c_00);
  expect(halfBits(1 + 3 * up)).toBe(0x3c_02);
  expect(halfBits(1 + up * 1.001)).toBe(0x3c_01);
  expect(halfBits(65_519)).toBe(0x7b_ff);
  expect(halfBits(65_520)).toBe(0x7c_00);
  expect(halfBits(2 ** -25)).toBe(0);
  expect(halfBits(2 ** -25 * 1.5)).toBe(1);
  expect(halfBits(Number.NaN) & 0x7c_00).toBe(0x7c_00);
});

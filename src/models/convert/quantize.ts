/**
 * ggml's reference quantizers, to the bit: blocks of 32 weights that share a scale (and a minimum, for the types that end
 * in _1). All arithmetic is that of single precision without contraction.
 */
import type { Quantization } from '../catalogue/quantization.ts';
import { BLOCK, GGML_TYPES } from '../files/ggml-types.ts';
import { halfBits } from '../files/half-float.ts';

/** @param values whole rows, each a multiple of 32 long */
export function quantize(values: Float32Array, type: Quantization): Buffer {
  if (values.length % BLOCK !== 0) throw new RangeError(`${values.length} values are no blocks`);
  const { blockBytes } = GGML_TYPES[type];
  const blocks = values.length / BLOCK;
  const output = Buffer.alloc(blocks * blockBytes);
  const encode = ENCODERS[type];
  for (let block = 0; block < blocks; block++) {
    encode(values, block * BLOCK, output, block * blockBytes);
  }
  return output;
}

type BlockEncoder = (values: Float32Array, from: number, output: Buffer, to: number) => void;

const ENCODERS: Readonly<Record<Quantization, BlockEncoder>> = {
  q8_0: encodeEightBits,
  q5_1: (values, from, output, to) => encodeWithMinimum(values, from, output, to, 5),
  q5_0: (values, from, output, to) => encodeSymmetric(values, from, output, to, 5),
  q4_1: (values, from, output, to) => encodeWithMinimum(values, from, output, to, 4),
  q4_0: (values, from, output, to) => encodeSymmetric(values, from, output, to, 4),
};

const f32 = Math.fround;

function inverse(scale: number): number {
  return scale === 0 ? 0 : f32(1 / scale);
}

function encodeEightBits(values: Float32Array, from: number, output: Buffer, to: number): void {
  let largest = 0;
  for (let at = from; at < from + BLOCK; at++) {
    largest = Math.max(largest, Math.abs(values[at] ?? 0));
  }
  const scale = f32(largest / 127);
  const factor = inverse(scale);
  output.writeUInt16LE(halfBits(scale), to);
  for (let at = 0; at < BLOCK; at++) {
    output.writeInt8(roundAway(f32((values[from + at] ?? 0) * factor)), to + 2 + at);
  }
}

/** Halves go away from zero. */
function roundAway(value: number): number {
  return Math.sign(value) * Math.floor(Math.abs(value) + 0.5);
}

/** The value of largest magnitude gets the lowest code, so that its sign decides the scale's. */
function encodeSymmetric(
  values: Float32Array,
  from: number,
  output: Buffer,
  to: number,
  bits: 4 | 5,
): void {
  let largest = 0;
  let extreme = 0;
  for (let at = from; at < from + BLOCK; at++) {
    const value = values[at] ?? 0;
    if (largest < Math.abs(value)) {
      largest = Math.abs(value);
      extreme = value;
    }
  }
  const half = 2 ** (bits - 1);
  const scale = f32(extreme / -half);
  const factor = inverse(scale);
  output.writeUInt16LE(halfBits(scale), to);
  writeCodes(output, to + 2, bits, (at) => {
    const scaled = f32((values[from + at] ?? 0) * factor);
    return Math.trunc(f32(scaled + half + 0.5));
  });
}

function encodeWithMinimum(
  values: Float32Array,
  from: number,
  output: Buffer,
  to: number,
  bits: 4 | 5,
): void {
  let lowest = Number.POSITIVE_INFINITY;
  let highest = Number.NEGATIVE_INFINITY;
  for (let at = from; at < from + BLOCK; at++) {
    const value = values[at] ?? 0;
    if (value < lowest) lowest = value;
    if (value > highest) highest = value;
  }
  const scale = f32(f32(highest - lowest) / (2 ** bits - 1));
  const factor = inverse(scale);
  output.writeUInt16LE(halfBits(scale), to);
  output.writeUInt16LE(halfBits(lowest), to + 2);
  writeCodes(output, to + 4, bits, (at) => {
    const scaled = f32(f32((values[from + at] ?? 0) - lowest) * factor);
    return Math.trunc(f32(scaled + 0.5));
  });
}

/** Four bits of each code: value `at` beside value `at + 16`. Fifth bits go before them, 32 in a row. */
function writeCodes(output: Buffer, to: number, bits: 4 | 5, codeOf: (at: number) => number): void {
  const most = 2 ** bits - 1;
  const nibbles = bits === 5 ? to + 4 : to;
  let fifths = 0;
  for (let at = 0; at < BLOCK / 2; at++) {
    const first = Math.min(most, codeOf(at));
    const second = Math.min(most, codeOf(at + BLOCK / 2));
    output[nibbles + at] = (first & 0xf) | ((second & 0xf) << 4);
    fifths |= ((first >> 4) & 1) << at;
    fifths |= ((second >> 4) & 1) << (at + BLOCK / 2);
  }
  if (bits === 5) output.writeUInt32LE(fifths >>> 0, to);
}

import { expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { type OnnxGraph, readOnnx } from '../../../src/models/files/onnx-reader.ts';
import {
  FLOAT_DATA,
  floats,
  graph,
  graphAttribute,
  INT32_DATA,
  INT64_DATA,
  integersAttribute,
  message,
  model,
  node,
  packed,
  RAW_DATA,
  tensor,
  tensorAttribute,
} from './onnx-bytes.ts';

const FLOAT = 1;
const UINT8 = 2;
const INT8 = 3;
const INT64 = 7;
const STRING = 8;

const weights = [
  tensor('raw f32', [2, 1], FLOAT, [RAW_DATA, floats(1.5, -2)]),
  tensor('typed f32', [1], FLOAT, [FLOAT_DATA, floats(0.25)]),
  tensor('raw u8', [3], UINT8, [RAW_DATA, Uint8Array.of(0, 128, 255)]),
  tensor('typed u8', [], UINT8, [INT32_DATA, packed(131)]),
  tensor('raw i8', [2], INT8, [RAW_DATA, Uint8Array.of(128, 127)]),
  tensor('typed i8', [1], INT8, [INT32_DATA, packed(-5)]),
  tensor('raw i64', [1], INT64, [RAW_DATA, new Uint8Array(BigInt64Array.of(-9n).buffer)]),
  tensor('typed i64', [2], INT64, [INT64_DATA, packed(16_000, -1)]),
  tensor('empty', [0, 4], FLOAT, [RAW_DATA, new Uint8Array()]),
];

const branch = graph(
  [node('Identity', 'inner', ['x'], ['y'])],
  [tensor('w', [1], FLOAT, [RAW_DATA, floats(7)])],
);

const file = model(
  graph(
    [
      node('Constant', 'c', [], ['c_out'], [tensorAttribute('value', weights[0] ?? branch)]),
      node('If', 'choice', ['c_out'], ['z'], [graphAttribute('then_branch', branch)]),
      node('Conv', 'conv', ['z', 'w'], ['out'], [integersAttribute('strides', 2, -1)]),
    ],
    weights,
  ),
);

const read = (bytes: Uint8Array) => readOnnx(bytes, 'test.onnx');

/** MODEL_FILE_INVALID, or what else came out. */
function outcome(bytes: Uint8Array): OnnxGraph | string {
  try {
    return read(bytes);
  } catch (thrown) {
    if (thrown instanceof WavepoolError) return thrown.code;
    throw thrown;
  }
}

test('raw and typed weights of every type are read with their shapes', () => {
  const { initializers } = read(file);
  const found = [...initializers.values()].map(({ name, shape, type, data }) => [
    name,
    shape,
    type,
    Array.from<number | bigint>(data),
  ]);
  expect(found).toEqual([
    ['raw f32', [2, 1], 'f32', [1.5, -2]],
    ['typed f32', [1], 'f32', [0.25]],
    ['raw u8', [3], 'u8', [0, 128, 255]],
    ['typed u8', [], 'u8', [131]],
    ['raw i8', [2], 'i8', [-128, 127]],
    ['typed i8', [1], 'i8', [-5]],
    ['raw i64', [1], 'i64', [-9n]],
    ['typed i64', [2], 'i64', [16_000n, -1n]],
    ['empty', [0, 4], 'f32', []],
  ]);
});

test('nodes are read with inputs, outputs, constants, integers and branches', () => {
  const { nodes } = read(file);
  expect(nodes.map(({ opType, name, inputs, outputs }) => [opType, name, inputs, outputs])).toEqual(
    [
      ['Constant', 'c', [], ['c_out']],
      ['If', 'choice', ['c_out'], ['z']],
      ['Conv', 'conv', ['z', 'w'], ['out']],
    ],
  );
  expect(nodes[0]?.tensors.get('value')?.data).toEqual(Float32Array.of(1.5, -2));
  expect(nodes[1]?.graphs.get('then_branch')?.nodes[0]?.name).toBe('inner');
  expect(nodes[1]?.graphs.get('then_branch')?.initializers.get('w')?.data).toEqual(
    Float32Array.of(7),
  );
  expect(nodes[2]?.integers.get('strides')).toEqual([2, -1]);
});

test('weights of other types and in other files are left out', () => {
  const external = message([1, 1], [2, FLOAT], [8, 'external'], [14, 1]);
  const strings = message([1, 1], [2, STRING], [6, 'text'], [8, 'strings']);
  expect(read(model(graph([], [external, strings]))).initializers.size).toBe(0);
});

const contradictions: [string, Uint8Array][] = [
  ['with less data than its shape', tensor('t', [3], FLOAT, [RAW_DATA, floats(1, 2)])],
  ['with more data than its shape', tensor('t', [1], INT8, [RAW_DATA, Uint8Array.of(1, 2)])],
  ['ending inside an element', tensor('t', [1], FLOAT, [RAW_DATA, Uint8Array.of(1, 2, 3)])],
  ['with too few typed values', tensor('t', [2], INT64, [INT64_DATA, packed(1)])],
  ['of 2^40 values', tensor('t', [2 ** 20, 2 ** 20], UINT8, [RAW_DATA, Uint8Array.of(1)])],
  ['whose size overflows', tensor('t', [2 ** 50, 2 ** 50, 2 ** 50], FLOAT, [RAW_DATA, floats(1)])],
  ['of negative size', tensor('t', [-1, -1], INT8, [RAW_DATA, Uint8Array.of(1)])],
];
for (const [what, broken] of contradictions) {
  test(`a weight ${what} is refused with its name`, () => {
    expect(() => read(model(graph([], [broken])))).toThrow(/test\.onnx: tensor t /);
    expect(outcome(model(graph([], [broken])))).toBe('MODEL_FILE_INVALID');
  });
}

test('every truncated file is refused', () => {
  const accepted = Array.from(file.keys()).filter(
    (length) => outcome(file.subarray(0, length)) !== 'MODEL_FILE_INVALID',
  );
  expect(accepted).toEqual([]);
});

test('a file with any one byte changed is read or refused, never anything else', () => {
  const refused = Array.from(file.keys()).flatMap((position) =>
    [0x00, 0x7f, 0x80, 0xff].filter((value) => {
      const mutated = Uint8Array.from(file);
      mutated[position] = value;
      return typeof outcome(mutated) === 'string';
    }),
  );
  expect(refused.length).toBeGreaterThan(0);
});

test('branches nested a thousand deep are refused', () => {
  let nested = graph([], []);
  for (let depth = 0; depth < 1000; depth++) {
    nested = graph([node('If', 'if', [], [], [graphAttribute('then_branch', nested)])], []);
  }
  expect(outcome(model(nested))).toBe('MODEL_FILE_INVALID');
});

test('other files are refused', () => {
  expect(outcome(Buffer.from('GGUF, not ONNX'))).toBe('MODEL_FILE_INVALID');
  expect(outcome(new Uint8Array())).toBe('MODEL_FILE_INVALID');
});

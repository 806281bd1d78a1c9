/**
 * Writes GGUF version 3 (github.com/ggml-org/ggml, docs/gguf.md): header, metadata, tensor table, then the tensors'
 * data on multiples of 32 bytes. Equal contents give equal bytes.
 */
import { type WrittenFile, writeWholeFile } from './file-writer.ts';
import { GGML_TYPES } from './ggml-types.ts';

export type GgufValue =
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'u32'; readonly value: number }
  | { readonly type: 'f32'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'strings'; readonly value: readonly string[] };

/** `shape` is outermost first (the file stores it innermost first) and multiplies to `data.length`. */
export type GgufTensor = { readonly name: string; readonly shape: readonly number[] } & (
  | { readonly type: 'f32'; readonly data: Float32Array }
  /** IEEE half precision as bit patterns. */
  | { readonly type: 'f16'; readonly data: Uint16Array }
  | { readonly type: 'i8'; readonly data: Int8Array }
);

/** Metadata and tensors, both written in this order. */
export interface GgufContents {
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: readonly GgufTensor[];
}

const VERSION = 3;
const ALIGNMENT = 32;
/** ggml keeps names in 64 bytes with a closing zero, shapes in four dimensions. */
const MAX_NAME_BYTES = 63;
const MAX_DIMENSIONS = 4;

const VALUE_TYPES = { u32: 4, f32: 6, bool: 7, string: 8, strings: 9 } as const;

/** The whole file or none: see `writeWholeFile`. */
export function writeGguf(path: string, contents: GgufContents): Promise<WrittenFile> {
  return writeWholeFile(path, async (write) => {
    await write(padded(encodeHeader(contents)));
    for (const { data } of contents.tensors) {
      await write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      await write(new Uint8Array(paddingAfter(data.byteLength)));
    }
  });
}

function encodeHeader({ metadata, tensors }: GgufContents): Buffer {
  const encoder = new Encoder();
  encoder.bytes(Buffer.from('GGUF'));
  encoder.u32(VERSION);
  encoder.u64(tensors.length);
  encoder.u64(metadata.size);
  for (const [key, value] of metadata) {
    encoder.string(key);
    encodeValue(encoder, value);
  }
  let offset = 0;
  for (const tensor of tensors) {
    checkTensor(tensor);
    encoder.string(tensor.name);
    encoder.u32(tensor.shape.length);
    for (const dim of tensor.shape.toReversed()) encoder.u64(dim);
    encoder.u32(GGML_TYPES[tensor.type].number);
    encoder.u64(offset);
    offset += tensor.data.byteLength + paddingAfter(tensor.data.byteLength);
  }
  return encoder.finish();
}

function encodeValue(encoder: Encoder, value: GgufValue): void {
  encoder.u32(VALUE_TYPES[value.type]);
  switch (value.type) {
    case 'string':
      encoder.string(value.value);
      return;
    case 'u32':
      encoder.u32(value.value);
      return;
    case 'f32':
      encoder.f32(value.value);
      return;
    case 'bool':
      encoder.bytes(Uint8Array.of(value.value ? 1 : 0));
      return;
    case 'strings':
      encoder.u32(VALUE_TYPES.string);
      encoder.u64(value.value.length);
      for (const item of value.value) encoder.string(item);
      return;
    default:
      value satisfies never;
  }
}

/** A tensor that ggml could not read is a fault of the converter, not of its input. */
function checkTensor({ name, shape, data }: GgufTensor): void {
  const count = shape.reduce((product, dim) => product * dim, 1);
  if (count !== data.length) throw new RangeError(`${name}: ${data.length} values for [${shape}]`);
  if (shape.length === 0 || shape.length > MAX_DIMENSIONS) throw new RangeError(`${name}: rank`);
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) throw new RangeError(`${name}: name too long`);
}

function paddingAfter(bytes: number): number {
  return (ALIGNMENT - (bytes % ALIGNMENT)) % ALIGNMENT;
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, new Uint8Array(paddingAfter(bytes.length))]);
}

class Encoder {
  readonly #chunks: Uint8Array[] = [];

  bytes(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
  }

  u32(value: number): void {
    const chunk = Buffer.alloc(4);
    chunk.writeUInt32LE(value);
    this.bytes(chunk);
  }

  u64(value: number): void {
    const chunk = Buffer.alloc(8);
    chunk.writeBigUInt64LE(BigInt(value));
    this.bytes(chunk);
  }

  f32(value: number): void {
    const chunk = Buffer.alloc(4);
    chunk.writeFloatLE(value);
    this.bytes(chunk);
  }

  string(value: string): void {
    const text = Buffer.from(value);
    this.u64(text.length);
    this.bytes(text);
  }

  finish(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

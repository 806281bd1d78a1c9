/** The index of a GGUF file (version 3, see gguf-writer.ts): enough to tell what it is and that it is all there. */
import { ByteCursor, type ByteSource, invalidFile } from './byte-source.ts';
import { tensorBytes } from './ggml-types.ts';

export interface GgufIndex {
  /** Values that are strings; others are only walked over. */
  readonly strings: ReadonlyMap<string, string>;
  readonly tensors: ReadonlyMap<string, GgufIndexTensor>;
}

export interface GgufIndexTensor {
  /** Innermost first. */
  readonly dimensions: readonly number[];
  /** ggml's number of the type. */
  readonly type: number;
}

const MAGIC = 'GGUF';
const VERSION = 3;
const MOST_ENTRIES = 65_536;
const LONGEST_STRING = 2 ** 20;
const MOST_DIMENSIONS = 4;
const LARGEST_ALIGNMENT = 2 ** 16;

/** Bytes of the values of fixed size, by number: u8 i8 u16 i16 u32 i32 f32 bool, then u64 i64 f64. */
const VALUE_BYTES: ReadonlyMap<number, number> = new Map([
  ...[1, 1, 2, 2, 4, 4, 4, 1].map((bytes, type) => [type, bytes] as const),
  ...[8, 8, 8].map((bytes, index) => [10 + index, bytes] as const),
]);
const U32 = 4;
const STRING = 8;
const ARRAY = 9;

export function isGgufFile(start: Uint8Array): boolean {
  return Buffer.from(start).subarray(0, 4).toString('latin1') === MAGIC;
}

/** @throws {WavepoolError} MODEL_FILE_INVALID */
export async function readGgufIndex(source: ByteSource): Promise<GgufIndex> {
  const file = source.name;
  const cursor = new ByteCursor(source);
  if (!isGgufFile(await cursor.bytes(4))) throw invalidFile(file, 'is no GGUF file');
  const version = await cursor.u32();
  if (version !== VERSION) throw invalidFile(file, `is GGUF of version ${version}`);
  const tensorCount = bounded(await cursor.u64(), MOST_ENTRIES, file);
  const valueCount = bounded(await cursor.u64(), MOST_ENTRIES, file);
  const strings = new Map<string, string>();
  let alignment = 32;
  for (let at = 0; at < valueCount; at++) {
    const key = await readString(cursor, file);
    const type = await cursor.u32();
    if (type === STRING) strings.set(key, await readString(cursor, file));
    else if (type === U32 && key === 'general.alignment') alignment = await cursor.u32();
    else await skipValue(cursor, type, file);
  }
  const isPower =
    alignment > 0 && alignment <= LARGEST_ALIGNMENT && (alignment & (alignment - 1)) === 0;
  if (!isPower) throw invalidFile(file, `has an alignment of ${alignment}`);
  return { strings, tensors: await readTensors(cursor, tensorCount, alignment, source) };
}

async function readTensors(
  cursor: ByteCursor,
  count: number,
  alignment: number,
  source: ByteSource,
): Promise<Map<string, GgufIndexTensor>> {
  const tensors = new Map<string, GgufIndexTensor>();
  const ends: number[] = [];
  for (let at = 0; at < count; at++) {
    const name = await readString(cursor, source.name);
    const rank = await cursor.u32();
    if (rank < 1 || rank > MOST_DIMENSIONS) {
      throw invalidFile(source.name, `${name} has ${rank} dimensions`);
    }
    const dimensions: number[] = [];
    for (let each = 0; each < rank; each++) dimensions.push(await cursor.u64());
    const type = await cursor.u32();
    const offset = await cursor.u64();
    const bytes = tensorBytes(dimensions, type);
    if (bytes === undefined)
      throw invalidFile(source.name, `${name} has a type or shape of no model here`);
    if (offset % alignment !== 0) throw invalidFile(source.name, `${name} lies between the marks`);
    if (tensors.has(name)) throw invalidFile(source.name, `has the tensor ${name} twice`);
    tensors.set(name, { dimensions, type });
    ends.push(offset + bytes);
  }
  const data = Math.ceil(cursor.position / alignment) * alignment;
  const end = ends.reduce((most, each) => Math.max(most, each), 0);
  if (data + end > source.bytes) throw invalidFile(source.name, 'is truncated');
  return tensors;
}

async function skipValue(cursor: ByteCursor, type: number, file: string): Promise<void> {
  const bytes = VALUE_BYTES.get(type);
  if (bytes !== undefined) return cursor.skip(bytes);
  if (type !== ARRAY) throw invalidFile(file, `has a value of the type ${type}`);
  const itemType = await cursor.u32();
  const count = await cursor.u64();
  const itemBytes = VALUE_BYTES.get(itemType);
  if (itemBytes !== undefined) return cursor.skip(count * itemBytes);
  // Arrays of arrays are in no model here.
  if (itemType !== STRING) throw invalidFile(file, `has an array of the type ${itemType}`);
  for (let at = 0; at < count; at++) {
    cursor.skip(bounded(await cursor.u64(), LONGEST_STRING, file));
  }
}

async function readString(cursor: ByteCursor, file: string): Promise<string> {
  const length = bounded(await cursor.u64(), LONGEST_STRING, file);
  return (await cursor.bytes(length)).toString('utf8');
}

function bounded(value: number, most: number, file: string): number {
  if (value > most) throw invalidFile(file, `counts ${value} where ${most} is a lot`);
  return value;
}

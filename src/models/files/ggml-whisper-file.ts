/**
 * The ggml Whisper format of whisper.cpp (`ggml-tiny.en.bin` …), read strictly and written. Magic, eleven i32
 * hyperparameters, mel filters, tokens, then tensors up to the end of the file, each with its own header. The reader knows
 * which tensors the hyperparameters ask for and takes no other file.
 */
import { QUANTIZATIONS, type Quantization } from '../catalogue/quantization.ts';
import { ByteCursor, type ByteSource, invalidFile } from './byte-source.ts';
import { type WriteChunk, type WrittenFile, writeWholeFile } from './file-writer.ts';
import { F16, F32, GGML_TYPES, tensorBytes } from './ggml-types.ts';
import {
  checkDimensions,
  DIMENSION_NAMES,
  type WhisperDimensions,
  type WhisperTensorKind,
  type WhisperTensorShape,
  whisperTensors,
} from './whisper-layout.ts';

export const GGML_MAGIC = 0x67_67_6d_6c;
/** Bins of a 400-point transform, and so of a mel filter. */
export const FILTER_BINS = 201;
/** Tokens with text of their own; the special ones behind them have none in the file. */
export const TEXT_TOKENS = 50_257;
const LONGEST_TOKEN_BYTES = 256;
const TOKEN_WINDOW = 2 ** 18;
/** The matrices of a file may have these types, by their numbers. */
const MATRIX_TYPES: ReadonlySet<number> = new Set(
  (['f32', 'f16', ...QUANTIZATIONS] as const).map((name) => GGML_TYPES[name].number),
);
/** ggml's numbers of files that consist mostly of such a type. The thousands are the version of the block formats. */
export const QUANTIZED_FILE_TYPES: Readonly<Record<Quantization, number>> = {
  q4_0: 2_002,
  q4_1: 2_003,
  q8_0: 2_007,
  q5_0: 2_008,
  q5_1: 2_009,
};

/** Everything in the file before the tensors. */
export interface WhisperHeader {
  readonly dimensions: WhisperDimensions;
  /** ggml's number: 0 f32, 1 f16, 2007 q8_0 … */
  readonly fileType: number;
  /** `mels` rows of 201 f32. */
  readonly filters: Uint8Array;
  readonly tokens: readonly Uint8Array[];
}

export interface WhisperTensor extends WhisperTensorShape {
  /** ggml's number of the type. */
  readonly type: number;
}

/** A tensor, and where its data lies in the file. */
export interface LocatedTensor extends WhisperTensor {
  readonly offset: number;
  readonly bytes: number;
}

export interface WhisperFile {
  readonly header: WhisperHeader;
  /** In the order of the file. */
  readonly tensors: readonly LocatedTensor[];
}

/**
 * Everything but the tensors' data.
 * @throws {WavepoolError} MODEL_FILE_INVALID
 */
export async function readWhisperFile(source: ByteSource): Promise<WhisperFile> {
  const cursor = new ByteCursor(source);
  const header = await readHeader(cursor, source.name);
  const expected = new Map(whisperTensors(header.dimensions).map((each) => [each.name, each]));
  const tensors: LocatedTensor[] = [];
  while (cursor.remaining > 0) {
    const tensor = await readTensor(cursor, expected, source.name);
    tensors.push(tensor);
    cursor.skip(tensor.bytes);
  }
  const [missing] = expected.keys();
  if (missing !== undefined) throw invalidFile(source.name, `has no tensor ${missing}`);
  return { header, tensors };
}

/** Tells by its first bytes whether a file is of this format. */
export function isGgmlFile(start: Uint8Array): boolean {
  return start.length >= 4 && Buffer.from(start).readUInt32LE() === GGML_MAGIC;
}

async function readHeader(cursor: ByteCursor, file: string): Promise<WhisperHeader> {
  if ((await cursor.u32()) !== GGML_MAGIC) throw invalidFile(file, 'is no ggml file');
  const numbers: number[] = [];
  for (const _ of DIMENSION_NAMES) numbers.push(await cursor.i32());
  const [first = 0, second = 0, third = 0, ...rest] = numbers;
  const [fourth = 0, fifth = 0, sixth = 0, seventh = 0, eighth = 0, ninth = 0, tenth = 0] = rest;
  const dimensions: WhisperDimensions = {
    vocabulary: first,
    audioContext: second,
    audioState: third,
    audioHeads: fourth,
    audioLayers: fifth,
    textContext: sixth,
    textState: seventh,
    textHeads: eighth,
    textLayers: ninth,
    mels: tenth,
  };
  const fileType = await cursor.i32();
  checkDimensions(file, dimensions);
  const mels = await cursor.i32();
  const bins = await cursor.i32();
  if (mels !== dimensions.mels || bins !== FILTER_BINS) {
    throw invalidFile(file, `has mel filters of ${mels} × ${bins}`);
  }
  const filters = Uint8Array.from(await cursor.bytes(mels * bins * 4));
  return { dimensions, fileType, filters, tokens: await readTokens(cursor, file) };
}

async function readTokens(cursor: ByteCursor, file: string): Promise<Uint8Array[]> {
  const count = await cursor.i32();
  // Converters have written the end-of-text token with the others, or not.
  if (count !== TEXT_TOKENS && count !== TEXT_TOKENS - 1) {
    throw invalidFile(file, `has ${count} tokens`);
  }
  const tokens: Uint8Array[] = [];
  let window: Buffer = Buffer.alloc(0);
  let at = 0;
  for (let id = 0; id < count; id++) {
    // Fifty thousand short reads would take longer than all the rest.
    if (at + 4 + LONGEST_TOKEN_BYTES > window.length) {
      cursor.skip(at);
      window = await cursor.ahead(TOKEN_WINDOW);
      at = 0;
    }
    if (at + 4 > window.length) throw invalidFile(file, `is truncated in token ${id}`);
    const length = window.readUInt32LE(at);
    if (length > LONGEST_TOKEN_BYTES) throw invalidFile(file, `token ${id} has ${length} bytes`);
    if (at + 4 + length > window.length) throw invalidFile(file, `is truncated in token ${id}`);
    tokens.push(window.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  cursor.skip(at);
  return tokens;
}

/** Takes what it finds out of `expected`. */
async function readTensor(
  cursor: ByteCursor,
  expected: Map<string, WhisperTensorShape>,
  file: string,
): Promise<LocatedTensor> {
  const rank = await cursor.i32();
  const nameBytes = await cursor.i32();
  const type = await cursor.i32();
  if (rank < 1 || rank > 4) throw invalidFile(file, `has a tensor of ${rank} dimensions`);
  if (nameBytes < 1 || nameBytes > 64) throw invalidFile(file, 'has a tensor with an odd name');
  const dimensions: number[] = [];
  for (let at = 0; at < rank; at++) dimensions.push(await cursor.i32());
  const name = (await cursor.bytes(nameBytes)).toString('latin1');
  const shape = expected.get(name);
  if (shape === undefined) {
    throw invalidFile(file, `has the tensor ${JSON.stringify(name)} twice, or for nothing`);
  }
  expected.delete(name);
  if (dimensions.join() !== shape.dimensions.join()) {
    throw invalidFile(file, `${name} is [${dimensions}] where [${shape.dimensions}] was expected`);
  }
  const bytes = tensorBytes(shape.dimensions, type);
  if (bytes === undefined || !mayHaveType(shape.kind, type)) {
    throw invalidFile(file, `${name} has the type ${type}`);
  }
  return { ...shape, type, offset: cursor.position, bytes };
}

function mayHaveType(kind: WhisperTensorKind, type: number): boolean {
  switch (kind) {
    case 'vector':
      return type === F32;
    case 'convolution':
      return type === F32 || type === F16;
    case 'matrix':
      return MATRIX_TYPES.has(type);
    default:
      kind satisfies never;
      return false;
  }
}

/** A tensor with its data, in pieces of any size. */
export type ProducedTensor = WhisperTensor & {
  readonly chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
};

/** One piece of data at a time is in memory. */
export function writeWhisperFile(
  target: string,
  header: WhisperHeader,
  tensors: AsyncIterable<ProducedTensor> | Iterable<ProducedTensor>,
): Promise<WrittenFile> {
  return writeWholeFile(target, async (write) => {
    await writeHeader(write, header);
    for await (const { name, dimensions, type, chunks } of tensors) {
      await write(integers(dimensions.length, name.length, type, ...dimensions));
      await write(Buffer.from(name, 'latin1'));
      let bytes = 0;
      for await (const chunk of chunks) {
        bytes += chunk.length;
        await write(chunk);
      }
      if (bytes !== tensorBytes(dimensions, type)) {
        throw new RangeError(`${name}: ${bytes} bytes for [${dimensions}]`);
      }
    }
  });
}

async function writeHeader(write: WriteChunk, header: WhisperHeader): Promise<void> {
  const { dimensions, fileType, filters, tokens } = header;
  const numbers = DIMENSION_NAMES.map((name) => dimensions[name]);
  await write(integers(GGML_MAGIC, ...numbers, fileType, dimensions.mels, FILTER_BINS));
  await write(filters);
  const listed = tokens.flatMap((token) => [integers(token.length), token]);
  await write(Buffer.concat([integers(tokens.length), ...listed]));
}

function integers(...values: readonly number[]): Buffer {
  const buffer = Buffer.alloc(4 * values.length);
  for (const [at, value] of values.entries()) buffer.writeInt32LE(value, 4 * at);
  return buffer;
}

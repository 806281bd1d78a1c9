/** Safetensors: u64 length of a JSON header, the header, the data. Only the tensors that are asked for are read. */
import { type ByteSource, invalidFile } from './byte-source.ts';

export interface SafetensorsTensor {
  /** The type as the format writes it: `F32`, `F16` … */
  readonly type: string;
  /** Outermost first. */
  readonly shape: readonly number[];
  readonly offset: number;
  readonly bytes: number;
}

const LARGEST_HEADER = 16 * 2 ** 20;
const TYPE_BYTES: Readonly<Record<string, number>> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
};

/** Tells by its first bytes whether a file is of this format. */
export function isSafetensorsFile(start: Uint8Array): boolean {
  const bytes = Buffer.from(start);
  return (
    bytes.length >= 9 && bytes.readBigUInt64LE() <= BigInt(LARGEST_HEADER) && bytes[8] === 0x7b
  );
}

/** @throws {WavepoolError} MODEL_FILE_INVALID */
export async function readSafetensorsIndex(
  source: ByteSource,
): Promise<ReadonlyMap<string, SafetensorsTensor>> {
  const length = (await source.read(0, 8)).readBigUInt64LE();
  if (length > BigInt(Math.min(LARGEST_HEADER, source.bytes))) {
    throw invalidFile(source.name, `has a header of ${length} bytes`);
  }
  const start = 8 + Number(length);
  let header: unknown;
  try {
    header = JSON.parse((await source.read(8, Number(length))).toString('utf8'));
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    throw invalidFile(source.name, 'has a damaged header', thrown);
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header)) {
    throw invalidFile(source.name, 'has a damaged header');
  }
  const tensors = new Map<string, SafetensorsTensor>();
  for (const [name, value] of Object.entries(header)) {
    if (name !== '__metadata__') tensors.set(name, readTensor(name, value, start, source));
  }
  return tensors;
}

function readTensor(
  name: string,
  value: unknown,
  start: number,
  source: ByteSource,
): SafetensorsTensor {
  const fields = new Map<string, unknown>(
    typeof value === 'object' && value !== null ? Object.entries(value) : [],
  );
  const type = fields.get('dtype');
  const shape = fields.get('shape');
  const offsets = fields.get('data_offsets');
  const valueBytes =
    typeof type === 'string' && Object.hasOwn(TYPE_BYTES, type) ? TYPE_BYTES[type] : undefined;
  if (
    valueBytes === undefined ||
    typeof type !== 'string' ||
    !isCounts(shape) ||
    !isCounts(offsets)
  ) {
    throw invalidFile(
      source.name,
      `${JSON.stringify(name)} is described in a way that is not read here`,
    );
  }
  const [from = 0, to = 0, ...more] = offsets;
  const bytes = shape.reduce((product, dim) => product * dim, valueBytes);
  if (more.length > 0 || to - from !== bytes || start + to > source.bytes) {
    throw invalidFile(source.name, `${JSON.stringify(name)} is not where it says`);
  }
  return { type, shape, offset: start + from, bytes };
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((each) => Number.isSafeInteger(each) && each >= 0);
}

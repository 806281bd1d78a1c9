/** A GGUF v3 reader for tests, written from the format's description and independent of the writer. */

export interface GgufFileContents {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, unknown>;
  readonly tensors: ReadonlyMap<string, GgufFileTensor>;
}

export interface GgufFileTensor {
  /** As stored: innermost first. */
  readonly dimensions: readonly number[];
  readonly type: number;
  /** From the start of the file. */
  readonly offset: number;
  readonly data: Buffer;
}

const ELEMENT_BYTES: Readonly<Record<number, number>> = { 0: 4, 1: 2, 24: 1 };

export function readGguf(file: Buffer): GgufFileContents {
  let position = 0;
  const take = (bytes: number) => {
    position += bytes;
    return file.subarray(position - bytes, position);
  };
  const u32 = () => take(4).readUInt32LE();
  const u64 = () => Number(take(8).readBigUInt64LE());
  const string = () => take(u64()).toString('utf8');
  const value = (type: number): unknown => {
    if (type === 4) return u32();
    if (type === 6) return take(4).readFloatLE();
    if (type === 7) return take(1).readUInt8() === 1;
    if (type === 8) return string();
    if (type !== 9) throw new Error(`value type ${type}`);
    const element = u32();
    return Array.from({ length: u64() }, () => value(element));
  };

  if (take(4).toString() !== 'GGUF') throw new Error('magic');
  const version = u32();
  const tensorCount = u64();
  const metadataCount = u64();
  const metadata = new Map<string, unknown>();
  for (let index = 0; index < metadataCount; index++) metadata.set(string(), value(u32()));
  const table = Array.from({ length: tensorCount }, () => ({
    name: string(),
    dimensions: Array.from({ length: u32() }, u64),
    type: u32(),
    relative: u64(),
  }));
  const start = Math.ceil(position / 32) * 32;
  const tensors = new Map<string, GgufFileTensor>();
  for (const { name, dimensions, type, relative } of table) {
    const count = dimensions.reduce((product, dimension) => product * dimension, 1);
    const offset = start + relative;
    const data = file.subarray(offset, offset + count * (ELEMENT_BYTES[type] ?? Number.NaN));
    tensors.set(name, { dimensions, type, offset, data });
  }
  return { version, metadata, tensors };
}

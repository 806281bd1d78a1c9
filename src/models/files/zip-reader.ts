/**
 * Files out of a zip archive such as a wheel, strictly: the central directory is bounded and believed only where it agrees
 * with the archive and with what is wanted; nothing is written beyond the size that was expected.
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw } from 'node:zlib';
import { type ByteSource, invalidFile } from './byte-source.ts';

export interface ZipEntry {
  readonly name: string;
  readonly compressedBytes: number;
  readonly bytes: number;
  readonly isDeflated: boolean;
  /** The place of the local header in the archive. */
  readonly offset: number;
}

const END_SIGNATURE = 0x06_05_4b_50;
const ENTRY_SIGNATURE = 0x02_01_4b_50;
const LOCAL_SIGNATURE = 0x04_03_4b_50;
const END_BYTES = 22;
const ENTRY_BYTES = 46;
const LOCAL_BYTES = 30;
const LONGEST_COMMENT = 0xff_ff;
const LARGEST_DIRECTORY = 16 * 2 ** 20;
const STORED = 0;
const DEFLATED = 8;
const ENCRYPTED = 1;

/**
 * The entries by name.
 * @throws {WavepoolError} MODEL_FILE_INVALID
 */
export async function readZipEntries(source: ByteSource): Promise<ReadonlyMap<string, ZipEntry>> {
  const { count, offset, bytes } = await findDirectory(source);
  const directory = await source.read(offset, bytes);
  const entries = new Map<string, ZipEntry>();
  let at = 0;
  for (let index = 0; index < count; index++) {
    if (at + ENTRY_BYTES > directory.length || directory.readUInt32LE(at) !== ENTRY_SIGNATURE) {
      throw invalidFile(source.name, 'its directory is damaged');
    }
    const end = at + ENTRY_BYTES + lengthsOf(directory, at);
    if (end > directory.length) throw invalidFile(source.name, 'its directory is damaged');
    const entry = entryAt(directory, at, source);
    if (entries.has(entry.name)) throw invalidFile(source.name, `holds ${entry.name} twice`);
    entries.set(entry.name, entry);
    at = end;
  }
  return entries;
}

/**
 * Writes one entry of the archive at `archive` to `target`.
 * @param source the same archive
 * @throws {WavepoolError} MODEL_FILE_INVALID when the entry is damaged or larger than it says
 */
export async function extractZipEntry(
  archive: string,
  source: ByteSource,
  entry: ZipEntry,
  target: string,
  signal?: AbortSignal,
): Promise<void> {
  const header = await source.read(entry.offset, LOCAL_BYTES);
  if (header.readUInt32LE() !== LOCAL_SIGNATURE) {
    throw invalidFile(source.name, `${entry.name} is not where it should be`);
  }
  const start = entry.offset + LOCAL_BYTES + header.readUInt16LE(26) + header.readUInt16LE(28);
  if (start + entry.compressedBytes > source.bytes) {
    throw invalidFile(source.name, `${entry.name} is truncated`);
  }
  let written = 0;
  const bounded = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      written += chunk.length;
      if (written > entry.bytes) throw invalidFile(source.name, `${entry.name} is too large`);
      yield chunk;
    }
  };
  const output = createWriteStream(target);
  const options = signal === undefined ? {} : { signal };
  const end = start + entry.compressedBytes - 1;
  try {
    if (entry.compressedBytes === 0) output.end();
    else if (entry.isDeflated) {
      const input = createReadStream(archive, { start, end });
      await pipeline(input, createInflateRaw(), bounded, output, options);
    } else await pipeline(createReadStream(archive, { start, end }), bounded, output, options);
  } catch (thrown) {
    if (!(thrown instanceof Error && 'code' in thrown && String(thrown.code).startsWith('Z_')))
      throw thrown;
    throw invalidFile(source.name, `${entry.name} is damaged`, thrown);
  }
  if (written !== entry.bytes) throw invalidFile(source.name, `${entry.name} is truncated`);
}

/** The end record stands at the end, before a comment of up to 64 KiB. */
async function findDirectory(source: ByteSource) {
  const tailBytes = Math.min(source.bytes, END_BYTES + LONGEST_COMMENT);
  const tail = await source.read(source.bytes - tailBytes, tailBytes);
  for (let at = tail.length - END_BYTES; at >= 0; at--) {
    if (tail.readUInt32LE(at) !== END_SIGNATURE) continue;
    if (at + END_BYTES + tail.readUInt16LE(at + 20) !== tail.length) continue;
    const disks = tail.readUInt32LE(at + 4);
    const count = tail.readUInt16LE(at + 10);
    const bytes = tail.readUInt32LE(at + 12);
    const offset = tail.readUInt32LE(at + 16);
    const isPlain = disks === 0 && tail.readUInt16LE(at + 8) === count;
    // Archives beyond 4 GiB, or in several parts, say so with the largest numbers.
    if (!isPlain || count === 0xff_ff || offset === 0xff_ff_ff_ff) break;
    if (bytes > LARGEST_DIRECTORY) break;
    if (offset + bytes > source.bytes - tailBytes + at) break;
    return { count, offset, bytes };
  }
  throw invalidFile(source.name, 'is no zip archive that is read here, or damaged');
}

function lengthsOf(directory: Buffer, at: number): number {
  return (
    directory.readUInt16LE(at + 28) +
    directory.readUInt16LE(at + 30) +
    directory.readUInt16LE(at + 32)
  );
}

function entryAt(directory: Buffer, at: number, source: ByteSource): ZipEntry {
  const flags = directory.readUInt16LE(at + 8);
  const method = directory.readUInt16LE(at + 10);
  const nameBytes = directory.readUInt16LE(at + 28);
  const name = directory.toString('utf8', at + ENTRY_BYTES, at + ENTRY_BYTES + nameBytes);
  const entry: ZipEntry = {
    name,
    compressedBytes: directory.readUInt32LE(at + 20),
    bytes: directory.readUInt32LE(at + 24),
    isDeflated: method === DEFLATED,
    offset: directory.readUInt32LE(at + 42),
  };
  const isPlain = (flags & ENCRYPTED) === 0 && (method === STORED || method === DEFLATED);
  const isInside = entry.offset + LOCAL_BYTES + entry.compressedBytes <= source.bytes;
  if (!isPlain || !isInside) throw invalidFile(source.name, `${JSON.stringify(name)} is damaged`);
  return entry;
}

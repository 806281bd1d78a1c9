/** Reading files whose own words about lengths are not trusted: nothing is allocated that the file does not hold. */
import { type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';

/** Random access to bytes of a known number. */
export interface ByteSource {
  /** Messages call the source by this name. */
  readonly name: string;
  readonly bytes: number;
  /** @throws {WavepoolError} MODEL_FILE_INVALID when the range is not all there */
  read(offset: number, length: number): Promise<Buffer>;
}

export function invalidFile(name: string, reason: string, cause?: unknown): WavepoolError {
  return new WavepoolError('MODEL_FILE_INVALID', `${name}: ${reason}`, { cause });
}

/** A file that stays open until it is disposed of. */
export class FileBytes implements ByteSource, AsyncDisposable {
  readonly name: string;
  readonly bytes: number;
  readonly #handle: FileHandle;

  private constructor(handle: FileHandle, name: string, bytes: number) {
    this.#handle = handle;
    this.name = name;
    this.bytes = bytes;
  }

  static async open(file: string, name = path.basename(file)): Promise<FileBytes> {
    const handle = await open(file);
    try {
      return new FileBytes(handle, name, (await handle.stat()).size);
    } catch (thrown) {
      await handle.close();
      throw thrown;
    }
  }

  async read(offset: number, length: number): Promise<Buffer> {
    checkRange(this, offset, length);
    const buffer = Buffer.allocUnsafe(length);
    let done = 0;
    while (done < length) {
      const { bytesRead } = await this.#handle.read(buffer, done, length - done, offset + done);
      if (bytesRead === 0) throw invalidFile(this.name, 'became shorter while it was read');
      done += bytesRead;
    }
    return buffer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}

/** Bytes that are in memory already. */
export class MemoryBytes implements ByteSource {
  readonly name: string;
  readonly #buffer: Buffer;

  constructor(name: string, bytes: Uint8Array) {
    this.name = name;
    this.#buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get bytes(): number {
    return this.#buffer.length;
  }

  read(offset: number, length: number): Promise<Buffer> {
    try {
      checkRange(this, offset, length);
    } catch (thrown) {
      return Promise.reject(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
    return Promise.resolve(Buffer.from(this.#buffer.subarray(offset, offset + length)));
  }
}

function checkRange({ name, bytes }: ByteSource, offset: number, length: number): void {
  const sound = Number.isSafeInteger(offset) && Number.isSafeInteger(length);
  if (sound && offset >= 0 && length >= 0 && length <= bytes - offset) return;
  throw invalidFile(name, `is truncated: ${length} bytes at ${offset} of ${bytes} are wanted`);
}

/** Little-endian values one after the other. Reads ahead a little, never beyond the end. */
export class ByteCursor {
  readonly #source: ByteSource;
  #position: number;
  #window: Buffer = Buffer.alloc(0);
  #windowStart = 0;

  constructor(source: ByteSource, position = 0) {
    this.#source = source;
    this.#position = position;
  }

  get position(): number {
    return this.#position;
  }

  get remaining(): number {
    return this.#source.bytes - this.#position;
  }

  async u8(): Promise<number> {
    return (await this.bytes(1)).readUInt8();
  }

  async u16(): Promise<number> {
    return (await this.bytes(2)).readUInt16LE();
  }

  async u32(): Promise<number> {
    return (await this.bytes(4)).readUInt32LE();
  }

  async i32(): Promise<number> {
    return (await this.bytes(4)).readInt32LE();
  }

  async u64(): Promise<number> {
    const value = (await this.bytes(8)).readBigUInt64LE();
    if (value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
    throw invalidFile(this.#source.name, `holds the impossible length ${value}`);
  }

  /** Shows the next bytes, fewer at the end, and stays where it is. The buffer is never written to again. */
  async ahead(length: number): Promise<Buffer> {
    const wanted = Math.min(length, this.remaining);
    const view = await this.bytes(wanted);
    this.#position -= wanted;
    return view;
  }

  /** Reads the next bytes. The buffer is never written to again. */
  async bytes(length: number): Promise<Buffer> {
    const from = this.#position - this.#windowStart;
    if (from < 0 || from + length > this.#window.length) await this.#load(length);
    const start = this.#position - this.#windowStart;
    this.#position += length;
    return this.#window.subarray(start, start + length);
  }

  /** @throws {WavepoolError} MODEL_FILE_INVALID when there is not so much */
  skip(length: number): void {
    checkRange(this.#source, this.#position, length);
    this.#position += length;
  }

  async #load(length: number): Promise<void> {
    const ahead = Math.min(Math.max(length, READ_AHEAD), Math.max(length, this.remaining));
    this.#window = await this.#source.read(this.#position, ahead);
    this.#windowStart = this.#position;
  }
}

const READ_AHEAD = 64 * 1024;

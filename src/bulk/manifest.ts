/**
 * The finished inputs of an output directory: `inputs.jsonl`, appended to and never changed, the last line of a path
 * counts. Lines lost to a crash only mean that their inputs are looked at again.
 *
 * Memory: two numbers per input and per output file, so that a million inputs stay small; records are read from the file
 * when asked for.
 */
import { hash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import type { InputRecord } from '../core/files/run-manifest.ts';
import { parseInputRecord } from '../core/files/run-manifest.ts';
import { syncFolder } from '../storage/durable-file.ts';

const FILE_NAME = 'inputs.jsonl';
const READ_BYTES = 64 * 1024;
const NEWLINE = 0x0a;

interface Line {
  readonly offset: number;
  readonly text: string;
  /** False for a last line without its end: the process died while it wrote. */
  readonly whole: boolean;
}

interface PendingRecord {
  readonly record: InputRecord;
  readonly line: Buffer;
}

export class Manifest {
  readonly #file: FileHandle;
  /** Key of a path → offset of its latest line. */
  readonly #lines = new Map<number, number>();
  /** Key of an output file → key of the path that wrote it last. */
  readonly #owners = new Map<number, number>();
  #end = 0;
  #pending: PendingRecord[] = [];
  #flushing: Promise<void> | undefined;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Opens the manifest in `folder`, which exists; drops superseded and torn lines first. */
  static async open(folder: string): Promise<Manifest> {
    const filePath = path.join(folder, FILE_NAME);
    const file = await open(filePath, 'a+');
    try {
      const manifest = new Manifest(file);
      if (!(await manifest.#load())) return manifest;
      await manifest.#compactInto(`${filePath}.new`);
      await rename(`${filePath}.new`, filePath);
      await syncFolder(folder);
    } catch (error) {
      await file.close();
      await rm(`${filePath}.new`, { force: true });
      throw error;
    }
    await file.close();
    return Manifest.open(folder);
  }

  get size(): number {
    return this.#lines.size;
  }

  /** The latest record of an input that an earlier run, or this one, has written. */
  async find(inputPath: string): Promise<InputRecord | undefined> {
    const offset = this.#lines.get(keyOf(inputPath));
    if (offset === undefined) return undefined;
    const record = parseInputRecord(await this.#lineAt(offset));
    return record?.path === inputPath ? record : undefined;
  }

  /** Whether `outputPath` was last written for `inputPath`. */
  owns(inputPath: string, outputPath: string): boolean {
    return this.#owners.get(keyOf(outputPath)) === keyOf(inputPath);
  }

  /**
   * Resolves once the record is on disk. Records that arrive while the disk works are written together.
   * @throws {WavepoolError} STORAGE_FULL
   */
  async append(record: InputRecord): Promise<void> {
    this.#pending.push({ record, line: Buffer.from(`${JSON.stringify(record)}\n`) });
    const flushing = this.#flushing;
    if (flushing !== undefined) await flushing;
    // Another append that waited for the same flush may have taken this record along already.
    await (this.#flushing ?? this.#flush());
  }

  async close(): Promise<void> {
    await this.#flushing;
    await this.#file.close();
  }

  #flush(): Promise<void> {
    this.#flushing = this.#writePending().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #writePending(): Promise<void> {
    const group = this.#pending;
    if (group.length === 0) return;
    this.#pending = [];
    try {
      await this.#file.appendFile(Buffer.concat(group.map(({ line }) => line)));
      await this.#file.datasync();
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      throw new WavepoolError('STORAGE_FULL', detail, { cause: error });
    }
    for (const { record, line } of group) {
      this.#index(record, this.#end);
      this.#end += line.length;
    }
  }

  #index(record: InputRecord, offset: number): void {
    const key = keyOf(record.path);
    this.#lines.set(key, offset);
    if (record.state === 'failed') return;
    for (const output of record.outputs) this.#owners.set(keyOf(output.path), key);
  }

  /** Reads the whole file once; true when it holds lines that no longer count. */
  async #load(): Promise<boolean> {
    let lines = 0;
    for await (const { offset, text, whole } of readLines(this.#file)) {
      lines += 1;
      this.#end = offset + Buffer.byteLength(text) + 1;
      const record = whole ? parseInputRecord(text) : undefined;
      if (record !== undefined) this.#index(record, offset);
    }
    return lines > this.#lines.size;
  }

  async #compactInto(filePath: string): Promise<void> {
    const target = await open(filePath, 'w');
    try {
      for await (const { offset, text, whole } of readLines(this.#file)) {
        const record = whole ? parseInputRecord(text) : undefined;
        if (record !== undefined && this.#lines.get(keyOf(record.path)) === offset)
          await target.appendFile(`${text}\n`);
      }
      await target.datasync();
    } finally {
      await target.close();
    }
  }

  async #lineAt(offset: number): Promise<string> {
    for (let bytes = 2048; ; bytes *= 2) {
      const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(bytes), 0, bytes, offset);
      const end = buffer.subarray(0, bytesRead).indexOf(NEWLINE);
      if (end >= 0) return buffer.toString('utf8', 0, end);
      if (bytesRead < bytes) return '';
    }
  }
}

async function* readLines(file: FileHandle): AsyncGenerator<Line> {
  let rest = Buffer.alloc(0);
  let offset = 0;
  for (let position = 0; ; ) {
    const chunk = Buffer.alloc(READ_BYTES);
    const { bytesRead } = await file.read(chunk, 0, READ_BYTES, position);
    position += bytesRead;
    rest = Buffer.concat([rest, chunk.subarray(0, bytesRead)]);
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      yield { offset, text: rest.toString('utf8', 0, end), whole: true };
      offset += end + 1;
      rest = rest.subarray(end + 1);
    }
    if (bytesRead === 0) break;
  }
  if (rest.length > 0) yield { offset, text: rest.toString('utf8'), whole: false };
}

/** 48 bits: two of a million inputs share a key with a chance of 1 in 500, and then one is only looked at again. */
function keyOf(text: string): number {
  return hash('sha256', text, 'buffer').readUIntBE(0, 6);
}

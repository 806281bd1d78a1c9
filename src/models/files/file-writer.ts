/** Writes files that are there whole or not at all, and takes their hash on the way. */
import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';

export interface WrittenFile {
  readonly bytes: number;
  /** The hash of the whole file, hexadecimal. */
  readonly sha256: string;
}

/** Appends. A typed array lies in memory as little-endian numbers on every machine that Node and ggml share. */
export type WriteChunk = (chunk: Uint8Array) => Promise<void>;

/**
 * Writes the file under a temporary name beside `path`, syncs it and renames it into place: `path` either does not change
 * or is the whole file.
 */
export async function writeWholeFile(
  path: string,
  produce: (write: WriteChunk) => Promise<void>,
): Promise<WrittenFile> {
  const temporary = `${path}.${randomUUID()}.tmp`;
  const hash = createHash('sha256');
  let bytes = 0;
  const file = await open(temporary, 'wx');
  try {
    await produce(async (chunk) => {
      hash.update(chunk);
      bytes += chunk.length;
      await writeAll(file, chunk);
    });
    await file.sync();
    await rename(temporary, path);
  } finally {
    await file.close();
    await rm(temporary, { force: true });
  }
  return { bytes, sha256: hash.digest('hex') };
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  let done = 0;
  while (done < chunk.length) done += (await file.write(chunk, done)).bytesWritten;
}

import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';

const BLOCK_BYTES = 256 * 1024;

/** Hexadecimal. */
export function sha256Of(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Of a file of any size, hexadecimal. One block is read over and over: a stream's would stay until the next collection. */
export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  const block = Buffer.allocUnsafe(BLOCK_BYTES);
  await using file = await open(path);
  for (;;) {
    const { bytesRead } = await file.read(block, 0, BLOCK_BYTES);
    if (bytesRead === 0) return hash.digest('hex');
    hash.update(block.subarray(0, bytesRead));
  }
}

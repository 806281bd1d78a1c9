/** Where the private server's socket lies: outside the data directory, whose path may be too long for a socket. */
import { createHash } from 'node:crypto';
import { chmod, lstat, mkdir } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { WavepoolError } from '../../core/errors.ts';

/** 108 bytes on Linux and 104 on macOS, the closing zero included. */
const MAX_SOCKET_PATH_BYTES = 103;

/** Creates the folder, or makes sure that nobody else can reach into it. */
export async function isPrivateFolder(folder: string): Promise<boolean> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const found = await lstat(folder);
    if (!found.isDirectory() || found.uid !== userInfo().uid) return false;
    if ((found.mode & 0o077) !== 0) await chmod(folder, 0o700);
    return true;
  } catch {
    return false;
  }
}

/**
 * A socket path for a data directory, in the first folder that is private, writable and short enough.
 * @param dataDir its real path: two spellings of one directory share a server
 * @throws {WavepoolError} REDIS_UNSUITABLE
 */
export async function socketPath(dataDir: string, runtimeDirs: readonly string[]): Promise<string> {
  const name = `${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}.sock`;
  for (const folder of runtimeDirs) {
    const path = join(folder, name);
    if (Buffer.byteLength(path) > MAX_SOCKET_PATH_BYTES) continue;
    if (await isPrivateFolder(folder)) return path;
  }
  throw new WavepoolError(
    'REDIS_UNSUITABLE',
    `no private folder for its socket; tried ${runtimeDirs.join(', ')} (a socket path has at most ${MAX_SOCKET_PATH_BYTES} bytes)`,
  );
}

/** Fetched inputs are kept in temporary folders while they are read. */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

export interface FetchedInput extends AsyncDisposable {
  /** A temporary file. Disposing of the input removes it. */
  readonly path: string;
}

const NAME = /^wavepool-input-(\d+)-/;
/** This is longer than a job may run by default, because a process in another container looks like a dead one. */
const STALE_MS = 86_400_000;

/**
 * Makes a temporary folder for a fetched file.
 * @param save writes the file under this path, where nothing exists yet
 */
export async function fetchToFile(save: (path: string) => Promise<void>): Promise<FetchedInput> {
  const folder = await mkdtemp(join(tmpdir(), `wavepool-input-${process.pid}-`));
  const dispose = (): Promise<void> => rm(folder, { recursive: true, force: true });
  try {
    const path = join(folder, 'input');
    await save(path);
    return { path, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Removes the files of processes that were killed. */
export async function removeLeftFetches(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const [, pid] = NAME.exec(name) ?? [];
    if (pid === undefined || isAlive(Number(pid))) continue;
    const folder = join(tmpdir(), name);
    const found = await stat(folder).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs > STALE_MS)
      await rm(folder, { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** Inputs that were fetched lie in temporary folders for as long as they are read. */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

export interface FetchedInput extends AsyncDisposable {
  /** A temporary file; disposing removes it. */
  readonly path: string;
}

const NAME = /^wavepool-input-(\d+)-/;
/** Longer than a job may run by default: processes of other containers cannot be told from dead ones. */
const STALE_MS = 86_400_000;

/**
 * Fetches into a new file.
 * @param save writes the file under the path, which is free
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

/** Removes what processes left that were killed. */
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

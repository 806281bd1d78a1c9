/** A disk that a test can fill: a file system in memory, mounted for it. Needs the right to mount. */
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { mkdtemp, open, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

function mountProblem(): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'wavepool-mount-'));
  const { status, stderr, error } = spawnSync('mount', ['-t', 'tmpfs', 'none', folder]);
  if (status === 0) spawnSync('umount', [folder]);
  rmdirSync(folder);
  return status === 0 ? undefined : (error?.message ?? String(stderr).trim());
}

const PROBLEM = mountProblem();

/** Whether there can be small disks here. */
export const SMALL_DISKS = PROBLEM === undefined;

if (PROBLEM !== undefined) {
  process.stderr.write(
    `NOT TESTED: full and read-only disks, since none can be mounted: ${PROBLEM}\n`,
  );
}

export class SmallDisk implements AsyncDisposable {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  static async mount(bytes: number): Promise<SmallDisk> {
    const path = await mkdtemp(join(tmpdir(), 'wavepool-disk-'));
    await run('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=0755`, 'wavepool-test', path]);
    return new SmallDisk(path);
  }

  /** Takes all the space that is left. */
  async fill(): Promise<void> {
    const file = await open(this.#filler, 'a');
    try {
      const block = Buffer.alloc(4_096);
      for (;;) await file.appendFile(block);
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
    } finally {
      await file.close();
    }
  }

  /** Gives the space back that `fill` took. */
  async free(): Promise<void> {
    await rm(this.#filler, { force: true });
  }

  async setReadOnly(readOnly: boolean): Promise<void> {
    await run('mount', ['-o', `remount,${readOnly ? 'ro' : 'rw'}`, this.path]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Lazily: a process under test may still have a file open.
    await run('umount', ['--lazy', this.path]);
    await rmdir(this.path);
  }

  get #filler(): string {
    return join(this.path, 'filler');
  }
}

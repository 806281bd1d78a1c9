/** An exclusive lock between processes of one machine: a file that names its holder. */
import { randomBytes } from 'node:crypto';
import { link, readFile, stat, unlink, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { identifySelf, ProcessIdentity, processState } from './process-identity.ts';

const Holder = z.strictObject({
  /** Distinguishes two locks of one process. */
  nonce: z.string(),
  process: ProcessIdentity,
});
type Holder = z.infer<typeof Holder>;

/** A holder, or what is left of one: a file that the machine lost while it went down. */
type Found = Holder | { readonly nonce: string; readonly process: undefined };

const POLL_MS = 20;
const DEFAULT_TIMEOUT_MS = 60_000;

/** Somebody else held the lock for the whole time. */
export class LockHeldError extends Error {
  override readonly name = 'LockHeldError';
}

export interface LockOptions {
  /** @defaultValue 60 000 */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

async function removeIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
  }
}

async function readHolder(path: string): Promise<Found | undefined> {
  try {
    const [text, { ino, mtimeMs }] = [await readFile(path, 'utf8'), await stat(path)];
    const remains: Found = { nonce: `broken-${ino}-${Math.trunc(mtimeMs)}`, process: undefined };
    try {
      return Holder.safeParse(JSON.parse(text)).data ?? remains;
    } catch {
      return remains;
    }
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Puts the file in place, complete, or does nothing because there is one. */
async function place(path: string, holder: Holder): Promise<boolean> {
  const temporary = `${path}.${randomBytes(8).toString('hex')}.tmp`;
  try {
    await writeFile(temporary, JSON.stringify(holder), { mode: 0o600, flag: 'wx' });
    await link(temporary, path);
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await removeIfThere(temporary);
  }
}

/**
 * Removes the lock of a dead holder. Two processes may find the same dead holder, and the slower one must not remove the
 * lock that the faster one has taken since: so the right to remove this one holder's file is itself a lock, named after
 * its nonce, and the file is looked at again under it.
 */
async function removeDead(path: string, dead: Found, self: Holder): Promise<boolean> {
  const right = `${path}.${dead.nonce}`;
  if ((await tryAcquire(right, self)) !== undefined) return false;
  try {
    if ((await readHolder(path))?.nonce === dead.nonce) await unlink(path);
    return true;
  } finally {
    await removeIfThere(right);
  }
}

/** Undefined when the lock is ours now, else its holder. */
async function tryAcquire(path: string, self: Holder): Promise<Found | undefined> {
  for (;;) {
    if (await place(path, self)) return undefined;
    const found = await readHolder(path);
    if (found === undefined) continue;
    const dead = found.process === undefined || (await processState(found.process)) === 'dead';
    if (!dead || !(await removeDead(path, found, self))) return found;
  }
}

export class LockFile {
  readonly #path: string;
  #held = true;

  private constructor(path: string) {
    this.#path = path;
  }

  /**
   * Waits for the lock. A holder that died is taken over; one on another machine never is.
   * @throws {LockHeldError} when the time is up
   */
  static async acquire(path: string, options: LockOptions = {}): Promise<LockFile> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    const self: Holder = { nonce: randomBytes(8).toString('hex'), process: await identifySelf() };
    const giveUpAt = performance.now() + timeoutMs;
    for (;;) {
      signal?.throwIfAborted();
      const holder = await tryAcquire(path, self);
      if (holder === undefined) return new LockFile(path);
      if (performance.now() >= giveUpAt) {
        const who = holder.process
          ? `process ${holder.process.pid} on ${holder.process.host}`
          : 'an unknown process';
        throw new LockHeldError(`${who} holds ${path}; if it is gone, remove that file`);
      }
      await sleep(POLL_MS, undefined, { signal });
    }
  }

  /** Idempotent. */
  async release(): Promise<void> {
    if (!this.#held) return;
    this.#held = false;
    await removeIfThere(this.#path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

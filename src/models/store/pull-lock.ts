/**
 * One pull of a model at a time on a models folder, across processes and machines. The lock is a folder: whoever can
 * create it owns it and works inside it, in a folder of its own name. An owner that has died or shows no sign of life is
 * replaced. Should it only have slept, its own folder is gone when it wakes, so it fails instead of installing anything.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

export interface PullLockOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called once, when another pull holds the lock. */
  readonly onWait?: (() => void) | undefined;
}

const POLL_MS = 200;
const HEARTBEAT_MS = 5_000;
/** An owner without a heartbeat for this long is taken for dead. */
const SILENCE_MS = 60_000;

interface Owner {
  readonly token: string;
  readonly host: string;
  readonly pid: number;
}

/**
 * Runs `work` in an empty folder below `lock` while holding it; both are removed afterwards. A work whose lock was taken
 * over runs again.
 */
export async function withPullLock<T>(
  lock: string,
  options: PullLockOptions,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  for (let waiting = false; ; ) {
    options.signal?.throwIfAborted();
    const owner: Owner = { token: randomUUID(), host: hostname(), pid: process.pid };
    if (!(await create(lock, owner))) {
      if (!waiting) options.onWait?.();
      waiting = true;
      await removeIfAbandoned(lock);
      await delay(POLL_MS, undefined, options.signal ? { signal: options.signal } : {});
      continue;
    }
    const heartbeat = setInterval(() => {
      const now = new Date();
      // A lock that is gone shows when the work fails; there is nothing to do here.
      utimes(lock, now, now).catch(() => {});
    }, HEARTBEAT_MS).unref();
    try {
      const folder = path.join(lock, owner.token);
      await mkdir(folder);
      return await work(folder);
    } catch (thrown) {
      if (await owns(lock, owner)) throw thrown;
    } finally {
      clearInterval(heartbeat);
      if (await owns(lock, owner)) await remove(lock);
    }
  }
}

async function create(lock: string, owner: Owner): Promise<boolean> {
  try {
    await mkdir(lock);
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 'EEXIST') return false;
    throw thrown;
  }
  try {
    await writeFile(ownerFile(lock), JSON.stringify(owner));
  } catch (thrown) {
    await remove(lock);
    throw thrown;
  }
  return true;
}

async function removeIfAbandoned(lock: string): Promise<void> {
  const owner = await readOwner(lock);
  const isDead = owner?.host === hostname() && !isRunning(owner.pid);
  const seenMs = await stat(lock).then(
    (info) => info.mtimeMs,
    () => Number.POSITIVE_INFINITY,
  );
  if (isDead || Date.now() - seenMs > SILENCE_MS) await remove(lock);
}

/** Renamed first, so that the lock is free at once and only one of several removers gets it. */
async function remove(lock: string): Promise<void> {
  const doomed = `${lock}.${randomUUID()}.tmp`;
  try {
    await rename(lock, doomed);
  } catch {
    // Another process was quicker.
    return;
  }
  await rm(doomed, { recursive: true, force: true });
}

async function owns(lock: string, owner: Owner): Promise<boolean> {
  return (await readOwner(lock))?.token === owner.token;
}

async function readOwner(lock: string): Promise<Owner | undefined> {
  try {
    const parsed: unknown = JSON.parse(await readFile(ownerFile(lock), 'utf8'));
    return isOwner(parsed) ? parsed : undefined;
  } catch {
    // Not there, or being written at this moment.
    return undefined;
  }
}

function isOwner(value: unknown): value is Owner {
  return (
    typeof value === 'object' &&
    value !== null &&
    'token' in value &&
    typeof value.token === 'string' &&
    'host' in value &&
    typeof value.host === 'string' &&
    'pid' in value &&
    typeof value.pid === 'number'
  );
}

function ownerFile(lock: string): string {
  return path.join(lock, 'owner.json');
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    return thrown instanceof Error && 'code' in thrown && thrown.code === 'EPERM';
  }
}

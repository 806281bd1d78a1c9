/** Looks at a store before anything depends on it: whether it lets us in, and whether the first writer of a key wins. */
import { randomBytes } from 'node:crypto';
import { WavepoolError } from '../../core/errors.ts';
import type { Bucket } from './bucket.ts';

/** Whoever starts a command wants to hear soon that the address is wrong. */
const PATIENCE_MS = 5_000;

/**
 * Writes an object, which does not stay.
 * @throws {WavepoolError} STORAGE_UNSUITABLE, STORAGE_FORBIDDEN, STORAGE_UNAVAILABLE
 */
export async function assertSuitable(bucket: Bucket): Promise<void> {
  const { retry } = bucket.access;
  const { patienceMs } = retry;
  retry.patienceMs = Math.min(patienceMs, PATIENCE_MS);
  try {
    await probe(bucket, `probe/${randomBytes(12).toString('hex')}`);
  } finally {
    retry.patienceMs = patienceMs;
  }
}

async function probe(bucket: Bucket, key: string): Promise<void> {
  try {
    await bucket.putIfAbsent(key, 'first');
    if (!(await bucket.putIfAbsent(key, 'second'))) return;
  } catch (error) {
    if (!isNotImplemented(error)) throw error;
  } finally {
    await bucket.remove(key).catch(() => undefined);
  }
  throw new WavepoolError(
    'STORAGE_UNSUITABLE',
    `${bucket.place.bucket}: the store does not heed If-None-Match on PUT, so a job could get two results; use one that does (see docs/operations.md)`,
  );
}

function isNotImplemented(error: unknown): boolean {
  return (
    error instanceof WavepoolError &&
    error.cause instanceof Error &&
    error.cause.name === 'NotImplemented'
  );
}

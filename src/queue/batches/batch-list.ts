/** Batches page by page, the latest first. */
import type { Redis } from 'ioredis';
import type { BatchState, BatchView } from '../../core/job/batch.ts';
import { toRedisError } from '../redis/connection.ts';
import { batchesKey } from '../redis/queue-names.ts';
import type { BatchRecords } from './batch-records.ts';

/** The last batch that was looked at. */
export interface BatchCursor {
  readonly createdAt: number;
  readonly id: string;
}

export interface BatchListOptions {
  readonly state?: BatchState | undefined;
  readonly tenant?: string | undefined;
  readonly limit: number;
  readonly cursor?: BatchCursor | undefined;
}

export interface BatchPage {
  readonly views: readonly BatchView[];
  /** Undefined on the last page. */
  readonly next: BatchCursor | undefined;
}

/** Batches that one call looks at: a filter that few pass makes short pages, not long waits. */
const MOST_EXAMINED = 500;

/** @throws {WavepoolError} REDIS_UNAVAILABLE */
export async function listBatches(
  connection: Redis,
  records: BatchRecords,
  { state, tenant, limit, cursor }: BatchListOptions,
): Promise<BatchPage> {
  const views: BatchView[] = [];
  let last = cursor;
  for (let examined = 0; ; ) {
    const entries = await readAfter(connection, last, limit);
    for (const entry of entries) {
      last = entry;
      examined += 1;
      const view = await records.read(entry.id);
      const fits =
        view !== undefined &&
        (state === undefined || view.state === state) &&
        (tenant === undefined || view.tenant === tenant);
      if (fits) views.push(view);
      if (views.length === limit || examined === MOST_EXAMINED) return { views, next: last };
    }
    if (entries.length < limit) return { views, next: undefined };
  }
}

async function readAfter(
  connection: Redis,
  last: BatchCursor | undefined,
  count: number,
): Promise<BatchCursor[]> {
  try {
    // Batches of one millisecond are ordered by their ids: those up to the last one are read again and left out.
    const again =
      last === undefined
        ? 0
        : await connection.zcount(batchesKey(connection), last.createdAt, last.createdAt);
    const pairs = await connection.zrevrangebyscore(
      batchesKey(connection),
      last?.createdAt ?? '+inf',
      '-inf',
      'WITHSCORES',
      'LIMIT',
      0,
      count + again,
    );
    const entries: BatchCursor[] = [];
    for (let at = 0; at < pairs.length; at += 2) {
      const entry = { id: String(pairs[at]), createdAt: Number(pairs[at + 1]) };
      const isNew = last === undefined || entry.createdAt !== last.createdAt || entry.id < last.id;
      if (isNew) entries.push(entry);
    }
    return entries.slice(0, count);
  } catch (error) {
    throw toRedisError(error);
  }
}

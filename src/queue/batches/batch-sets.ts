/** What the sets of a batch's parent say about its items. */

import type { Redis } from 'ioredis';
import type { BatchCounts, BatchId, BatchRecord } from '../../core/job/batch.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { CANCELLED_PREFIX, failureOf, type JobFailure } from '../jobs/failures.ts';
import { completedEnd, type JobEnd } from '../jobs/job-view.ts';
import {
  BATCH_QUEUE,
  batchGateId,
  batchTimesKey,
  bullKey,
  queueNameOf,
} from '../redis/queue-names.ts';

/** Keys of BullMQ's at the parent: children that have not ended, return values, and reasons of those that failed. */
export function setKeys(redis: Redis, id: BatchId) {
  const of = (set: string): string => bullKey(redis, BATCH_QUEUE, `${id}:${set}`);
  return { pending: of('dependencies'), completed: of('processed'), failed: of('failed') };
}

/** The key of an item's job, by which the sets know it. */
export function itemJobKey(redis: Redis, record: BatchRecord, key: string): string {
  return bullKey(redis, queueNameOf(record.model), itemJobId(record, key));
}

export function itemJobId({ jobPrefix }: BatchRecord, key: string): string {
  return `${jobPrefix}.${key}`;
}

/** When something happened to a batch; milliseconds since 1970. */
export interface BatchTimes {
  /** No more items will come. */
  readonly closedAt: number | undefined;
  readonly interruptedAt: number | undefined;
  readonly cancelledAt: number | undefined;
  readonly finishedAt: number | undefined;
}

export interface BatchSnapshot {
  readonly times: BatchTimes;
  readonly counts: BatchCounts;
  /** Something still keeps the batch from finishing besides its items. */
  readonly gated: boolean;
}

/**
 * One moment of a batch. The gate counts as no item; jobs that run are looked up among those of the model that do, which
 * are no more than all workers can hold.
 *
 *   KEYS[1] pending  KEYS[2] completed  KEYS[3] failed  KEYS[4] times  KEYS[5] the model's active list
 *   ARGV[1] job key of the gate  ARGV[2] what job keys of the model start with  ARGV[3] how a cancelled job's reason starts
 *   returns { gated, pending, running, completed, failed, cancelled, closedAt, interruptedAt, cancelledAt, finishedAt }
 */
const SNAPSHOT = `
local gated = redis.call('SISMEMBER', KEYS[1], ARGV[1])
local pending = redis.call('SCARD', KEYS[1]) - gated
local completed = redis.call('HLEN', KEYS[2]) - redis.call('HEXISTS', KEYS[2], ARGV[1])
local ended = redis.call('HLEN', KEYS[3]) - redis.call('HEXISTS', KEYS[3], ARGV[1])
local running = 0
if pending > 0 then
  for _, id in ipairs(redis.call('LRANGE', KEYS[5], 0, -1)) do
    running = running + redis.call('SISMEMBER', KEYS[1], ARGV[2] .. id)
  end
end
local cancelled = 0
if ended > 0 then
  local size = #ARGV[3]
  for _, reason in ipairs(redis.call('HVALS', KEYS[3])) do
    if string.sub(reason, 1, size) == ARGV[3] then cancelled = cancelled + 1 end
  end
end
local times = redis.call('HMGET', KEYS[4], 'closedAt', 'interruptedAt', 'cancelledAt', 'finishedAt')
return { gated, pending, running, completed, ended - cancelled, cancelled, times[1], times[2], times[3], times[4] }
`;

export async function readSnapshot(
  connection: Redis,
  id: BatchId,
  record: BatchRecord,
): Promise<BatchSnapshot> {
  const {
    pending: pendingKey,
    completed: completedKey,
    failed: failedKey,
  } = setKeys(connection, id);
  const queue = queueNameOf(record.model);
  const keys = [
    pendingKey,
    completedKey,
    failedKey,
    batchTimesKey(connection, id),
    bullKey(connection, queue, 'active'),
  ];
  const gate = bullKey(connection, BATCH_QUEUE, batchGateId(id));
  const reply = await connection.eval(
    SNAPSHOT,
    keys.length,
    ...keys,
    gate,
    bullKey(connection, queue, ''),
    CANCELLED_PREFIX,
  );
  const values = Array.isArray(reply) ? reply : [];
  const numbers = values.map((value: unknown) => (value === null ? undefined : Number(value)));
  const [gated = 0, pending = 0, running = 0, completed = 0, failed = 0, cancelled = 0] = numbers;
  const [closedAt, interruptedAt, cancelledAt, finishedAt] = numbers.slice(6);
  return {
    gated: gated === 1,
    counts: {
      total: pending + completed + failed + cancelled,
      waiting: pending - running,
      running,
      completed,
      failed,
      cancelled,
    },
    times: { closedAt, interruptedAt, cancelledAt, finishedAt },
  };
}

/** What the parent knows of an item; undefined when it was never added. */
export type ItemFact = JobEnd | { readonly kind: 'pending' };

/**
 *   KEYS[1] pending  KEYS[2] completed  KEYS[3] failed
 *   ARGV job keys
 *   returns for each { 1 } pending, { 2, return value } completed, { 3, reason } failed, { 0 } unknown
 */
const FACTS = `
local facts = {}
for at, key in ipairs(ARGV) do
  local value = redis.call('HGET', KEYS[2], key)
  local reason = not value and redis.call('HGET', KEYS[3], key)
  if redis.call('SISMEMBER', KEYS[1], key) == 1 then facts[at] = { 1 }
  elseif value then facts[at] = { 2, value }
  elseif reason then facts[at] = { 3, reason }
  else facts[at] = { 0 } end
end
return facts
`;

/** In the order of the keys. */
export async function readFacts(
  connection: Redis,
  id: BatchId,
  record: BatchRecord,
  itemKeys: readonly string[],
): Promise<(ItemFact | undefined)[]> {
  if (itemKeys.length === 0) return [];
  const { pending, completed, failed } = setKeys(connection, id);
  const jobKeys = itemKeys.map((key) => itemJobKey(connection, record, key));
  const reply = await connection.eval(FACTS, 3, pending, completed, failed, ...jobKeys);
  return (Array.isArray(reply) ? reply : []).map(factOf);
}

function factOf(fact: unknown): ItemFact | undefined {
  const [kind, text]: unknown[] = Array.isArray(fact) ? fact : [];
  switch (kind) {
    case 1:
      return { kind: 'pending' };
    case 2:
      return completedEnd(parseJson(text));
    case 3:
      return { kind: 'failed', failure: failureOf(String(text)) };
    default:
      return undefined;
  }
}

export function isCancelled({ code }: JobFailure): boolean {
  return code === 'CANCELLED';
}

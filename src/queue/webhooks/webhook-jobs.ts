/**
 * The jobs whose end is to be told. The index is written before a job is added and cleaned after the delivery is in its
 * queue: whatever crashes in between, the job is found again in it.
 */
import type { Redis } from 'ioredis';
import type { JobData, JobId } from '../../core/job/job.ts';
import { webhookJobsKey } from '../redis/queue-names.ts';

/** A member whose time has changed belongs to another run of the job. */
const REMOVE_UNCHANGED = `
if redis.call('ZSCORE', KEYS[1], ARGV[1]) == ARGV[2] then return redis.call('ZREM', KEYS[1], ARGV[1]) end
return 0`;

export interface PendingWebhook {
  readonly id: JobId;
  /** As Redis writes it. */
  readonly score: string;
}

/** Call before the jobs are added or retried; those without a webhook are left out. */
export async function rememberWebhooks(
  connection: Redis,
  queue: string,
  jobs: readonly { readonly id: JobId; readonly data: JobData }[],
  nowMs: number,
): Promise<void> {
  const entries = jobs.flatMap(({ id, data }) => (data.webhook === undefined ? [] : [nowMs, id]));
  if (entries.length > 0) await connection.zadd(webhookJobsKey(connection, queue), ...entries);
}

export async function hasPendingWebhooks(connection: Redis, queue: string): Promise<boolean> {
  return (await connection.zcard(webhookJobsKey(connection, queue))) > 0;
}

/** Those of these jobs that are in the index. */
export async function pendingAmong(
  connection: Redis,
  queue: string,
  ids: readonly JobId[],
): Promise<PendingWebhook[]> {
  if (ids.length === 0) return [];
  const scores = await connection.zmscore(webhookJobsKey(connection, queue), ...ids);
  return ids.flatMap((id, at) => {
    const score = scores[at];
    return score == null ? [] : [{ id, score }];
  });
}

export async function pendingPage(
  connection: Redis,
  queue: string,
  start: number,
  count: number,
): Promise<PendingWebhook[]> {
  const range = [String(start), String(start + count - 1)] as const;
  const pairs = await connection.zrange(webhookJobsKey(connection, queue), ...range, 'WITHSCORES');
  const page: PendingWebhook[] = [];
  for (let at = 0; at < pairs.length; at += 2) {
    page.push({ id: String(pairs[at]), score: String(pairs[at + 1]) });
  }
  return page;
}

/** Whether it was there, and was not added again since. */
export async function settlePending(
  connection: Redis,
  queue: string,
  { id, score }: PendingWebhook,
): Promise<boolean> {
  return (
    (await connection.eval(REMOVE_UNCHANGED, 1, webhookJobsKey(connection, queue), id, score)) === 1
  );
}

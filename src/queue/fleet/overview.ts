/** What the whole service looks like now: queues, workers, recent failures. Reads a fixed number of keys per model. */

import type { Redis } from 'ioredis';
import type { ModelId } from '../../core/job/job.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import type { WorkerPresence } from '../../core/worker/status.ts';
import { failureOf, type JobFailure } from '../jobs/failures.ts';
import { type JobCounts, readCounts } from '../jobs/job-counts.ts';
import { readKnownModels } from '../jobs/known-models.ts';
import { toRedisError } from '../redis/connection.ts';
import { bullKey, queueNameOf } from '../redis/queue-names.ts';
import { readPresence } from './presence.ts';

export interface RecentFailure extends JobFailure {
  readonly id: string;
  readonly model: ModelId;
  /** Milliseconds since 1970. */
  readonly failedAt: number;
  /** Path or name of the input, where the job's data tells it. */
  readonly input: string | undefined;
}

export interface QueueOverview {
  readonly model: ModelId;
  readonly counts: JobCounts;
  /** Live workers that serve it; jobs of a queue without one wait. */
  readonly workers: number;
}

export interface ServiceOverview {
  /** Every model that has had a job or has a worker. */
  readonly queues: readonly QueueOverview[];
  readonly workers: readonly WorkerPresence[];
  /** Of all queues, the latest first; cancelled jobs are none. */
  readonly failures: readonly RecentFailure[];
}

/**
 * @param mostFailures that are looked at in each queue and told in all
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function readOverview(
  connection: Redis,
  mostFailures: number,
): Promise<ServiceOverview> {
  const [workers, known] = await Promise.all([
    readPresence(connection),
    readKnownModels(connection),
  ]);
  const served = workers.flatMap(({ models }) => models.map(({ id }) => id));
  const models = [...new Set([...known, ...served])].toSorted();
  try {
    const queues = await Promise.all(
      models.map(async (model) => ({
        model,
        counts: await readCounts(connection, model),
        workers: served.filter((id) => id === model).length,
      })),
    );
    const failures = await Promise.all(
      models.map((model) => readFailures(connection, model, mostFailures)),
    );
    const latest = failures.flat().toSorted((a, b) => b.failedAt - a.failedAt);
    return { queues, workers, failures: latest.slice(0, mostFailures) };
  } catch (error) {
    throw toRedisError(error);
  }
}

async function readFailures(
  connection: Redis,
  model: ModelId,
  most: number,
): Promise<RecentFailure[]> {
  if (most === 0) return [];
  const queue = queueNameOf(model);
  const ids = await connection.zrevrange(bullKey(connection, queue, 'failed'), 0, most - 1);
  const jobs = await Promise.all(
    ids.map((id) =>
      connection.hmget(bullKey(connection, queue, id), 'failedReason', 'finishedOn', 'data'),
    ),
  );
  return jobs.flatMap(([reason, finishedOn, data], at) => {
    const id = ids[at];
    if (id === undefined || reason == null) return [];
    const failure = failureOf(reason);
    if (failure.code === 'CANCELLED') return [];
    return { ...failure, id, model, failedAt: Number(finishedOn), input: inputOf(parseJson(data)) };
  });
}

/** Jobs are not parsed for this: one that another version wrote still has a name. */
function inputOf(data: unknown): string | undefined {
  if (typeof data !== 'object' || data === null || !('input' in data)) return undefined;
  const { input } = data;
  if (typeof input !== 'object' || input === null) return undefined;
  if ('path' in input) return String(input.path);
  return 'name' in input ? String(input.name) : undefined;
}

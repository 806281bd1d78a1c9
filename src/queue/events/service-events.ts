/** Between the event stream of a queue and the events that the service tells. */

import type { Redis } from 'ioredis';
import { errorRow } from '../../core/errors.ts';
import { timeOf } from '../../core/http/event-position.ts';
import { type CustomEvent, isCustomEventType, type ServiceEvent } from '../../core/http/events.ts';
import { BatchChange, BatchStanding } from '../../core/job/batch.ts';
import { JobProgress, type ModelId } from '../../core/job/job.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import type { JobFailure } from '../jobs/failures.ts';
import { completedEnd, failedEnd, type JobEnd } from '../jobs/job-view.ts';
import { toRedisError } from '../redis/connection.ts';
import { bullKey, queueNameOf } from '../redis/queue-names.ts';
import { EVENTS_KEPT, type StreamEvent } from './event-history.ts';

const TYPES: Readonly<Record<string, ServiceEvent['type']>> = {
  waiting: 'job.waiting',
  delayed: 'job.delayed',
  active: 'job.running',
  progress: 'job.progress',
  stalled: 'job.stalled',
  completed: 'job.completed',
  failed: 'job.failed',
  removed: 'job.removed',
};

/** Undefined for what is of no interest outside of the queue. */
export function serviceEventType(name: string): ServiceEvent['type'] | undefined {
  if (isCustomEventType(name)) return name;
  return TYPES[name] ?? BatchChange.safeParse(name).data;
}

/** Undefined for what has no `serviceEventType`, and for what is damaged or of another version. */
export function toServiceEvent(
  model: ModelId,
  { id, name, fields }: StreamEvent,
): ServiceEvent | undefined {
  const at = new Date(timeOf(id)).toISOString();
  if (isCustomEventType(name)) return { type: name, at, model, data: customData(fields) };
  const { jobId, data, returnvalue, failedReason = '' } = fields;
  const { data: change } = BatchChange.safeParse(name);
  if (change !== undefined) {
    const standing = BatchStanding.safeParse(parseJson(data)).data;
    return standing && { type: change, at, model, ...standing };
  }
  if (jobId === undefined) return undefined;
  const about = { at, model, jobId };
  switch (name) {
    case 'waiting':
      return { type: 'job.waiting', ...about };
    case 'delayed':
      return { type: 'job.delayed', ...about };
    case 'active':
      return { type: 'job.running', ...about };
    case 'stalled':
      return { type: 'job.stalled', ...about };
    case 'removed':
      return { type: 'job.removed', ...about };
    case 'progress': {
      const progress = JobProgress.safeParse(parseJson(data)).data;
      return progress && { type: 'job.progress', ...about, progress };
    }
    case 'completed':
      return endEvent(about, completedEnd(parseJson(returnvalue)));
    case 'failed':
      return endEvent(about, failedEnd(failedReason));
    default:
      return undefined;
  }
}

export interface EventSubject {
  readonly at: string;
  readonly model: ModelId;
  readonly jobId: string;
}

export function endEvent(about: EventSubject, end: JobEnd): ServiceEvent {
  switch (end.kind) {
    case 'completed': {
      const { resultKey: _, ...outcome } = end.outcome;
      return { type: 'job.completed', ...about, outcome };
    }
    case 'failed':
      return { type: 'job.failed', ...about, failure: shownFailure(end.failure) };
    case 'removed':
      return { type: 'job.removed', ...about };
    default:
      return end satisfies never;
  }
}

function shownFailure(failure: JobFailure) {
  return { ...failure, type: errorRow(failure.code).type };
}

export type PublishedEvent =
  | Pick<CustomEvent, 'type' | 'model' | 'data'>
  | { readonly type: BatchChange; readonly model: ModelId; readonly data: BatchStanding };

/**
 * Publishes an event on the queue of a model, for `GET /v1/events`.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function publishEvent(
  connection: Redis,
  { type, model, data }: PublishedEvent,
): Promise<void> {
  const key = bullKey(connection, queueNameOf(model), 'events');
  try {
    await connection.xadd(
      ...([
        key,
        'MAXLEN',
        '~',
        EVENTS_KEPT,
        '*',
        'event',
        type,
        'data',
        JSON.stringify(data),
      ] as const),
    );
  } catch (error) {
    throw toRedisError(error);
  }
}

/** What `publishEvent` wrote; of BullMQ's producer, the fields. */
function customData({ event: _, data, ...fields }: StreamEvent['fields']): CustomEvent['data'] {
  const parsed = parseJson(data);
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return { ...parsed };
  return data === undefined ? fields : { ...fields, data };
}

/** Deliveries of webhooks: jobs of a queue of their own, whose logs tell of each attempt. */

import { type Job, Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import {
  DeliveryAttempt,
  DeliveryData,
  type DeliveryResource,
  type DeliveryState,
  type DeliverySubject,
} from '../../core/http/webhook-message.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { viewOf } from '../jobs/job-view.ts';
import { toRedisError } from '../redis/connection.ts';
import {
  BATCH_QUEUE,
  bullKey,
  queuePrefix,
  WEBHOOK_QUEUE,
  webhookDeliveriesKey,
} from '../redis/queue-names.ts';
import { jobDelivery, type NewDelivery } from './webhook-messages.ts';

/** With the pauses of `WebhookLimits`: a receiver may be away for a day. */
export const DELIVERY_ATTEMPTS = 10;
const ATTEMPTS_LOGGED = 50;
/** Of one job or batch; each retry of a job may make one more. */
const DELIVERIES_KEPT = 100;
/** BullMQ orders delayed jobs by their time and, within a millisecond, by this many numbers. */
const SCORES_PER_MS = 4_096;
const DAY_S = 86_400;
const INDEX_LIFE_S = 30 * DAY_S;
const RETENTION = {
  delivered: { age: 7 * DAY_S, count: 100_000 },
  failed: { age: 30 * DAY_S, count: 100_000 },
};

export class WebhookDeliveries {
  readonly #connection: Redis;
  readonly #now: () => number;
  readonly #queue: Queue;

  /** The connection stays the caller's. */
  constructor(connection: Redis, now: () => number = Date.now) {
    this.#connection = connection;
    this.#now = now;
    this.#queue = new Queue(WEBHOOK_QUEUE, { connection, prefix: queuePrefix(connection) });
    // Commands report their own errors.
    this.#queue.on('error', () => undefined);
  }

  /** Idempotent: one end gives one delivery, for as long as that is kept. */
  async add({ id, data }: NewDelivery): Promise<void> {
    await this.#guard(async () => {
      const key = webhookDeliveriesKey(this.#connection, keyOf(data.subject));
      await this.#connection.zadd(key, 'NX', this.#now(), id);
      await this.#connection.zremrangebyrank(key, 0, -DELIVERIES_KEPT - 1);
      await this.#connection.expire(key, INDEX_LIFE_S);
      await this.#queue.add('deliver', data, {
        jobId: id,
        timestamp: this.#now(),
        attempts: DELIVERY_ATTEMPTS,
        backoff: { type: 'webhook' },
        keepLogs: ATTEMPTS_LOGGED,
        stackTraceLimit: 1,
        removeOnComplete: RETENTION.delivered,
        removeOnFail: RETENTION.failed,
      });
    });
  }

  /**
   * Adds the delivery of a job that has ended, if its webhook asks for that.
   * @returns false when the job has not ended
   */
  async tell(queue: Pick<Queue, 'name' | 'getJob'>, job: Job, id: string): Promise<boolean> {
    return this.#guard(async () => {
      const view = await viewOf(job, id, () => queue.getJob(id));
      if (view?.finishedAt === undefined) return false;
      const { parent } = job;
      const isItem = parent?.queueKey === bullKey(this.#connection, BATCH_QUEUE, '').slice(0, -1);
      const delivery = jobDelivery(queue.name, view, (isItem && parent?.id) || null);
      if (delivery !== undefined) await this.add(delivery);
      return true;
    });
  }

  /** Of a job or a batch, oldest first. */
  async list(subject: DeliverySubject): Promise<DeliveryResource[]> {
    return this.#guard(async () => {
      const ids = await this.#connection.zrange(
        webhookDeliveriesKey(this.#connection, keyOf(subject)),
        '0',
        '-1',
      );
      const found = await Promise.all(ids.map((id) => this.#read(id)));
      return found.filter((delivery) => delivery !== undefined);
    });
  }

  /** @throws {WavepoolError} DELIVERY_NOT_FOUND, REDIS_UNAVAILABLE */
  async get(id: string): Promise<DeliveryResource> {
    const delivery = await this.#guard(() => this.#read(id));
    if (delivery === undefined) throw new WavepoolError('DELIVERY_NOT_FOUND', id);
    return delivery;
  }

  /** Undefined for one that is not there. */
  async tenantOf(id: string): Promise<string | undefined> {
    const job = await this.#guard(() => this.#queue.getJob(id));
    return DeliveryData.safeParse(job?.data).data?.tenant;
  }

  /**
   * Sends once more what was delivered, given up or waits for its next attempt, with all attempts and under the same id.
   * One that is just being sent goes on.
   * @throws {WavepoolError} DELIVERY_NOT_FOUND, REDIS_UNAVAILABLE
   */
  async redeliver(id: string): Promise<DeliveryResource> {
    return this.#guard(async () => {
      const job = await this.#queue.getJob(id);
      if (job === undefined) throw new WavepoolError('DELIVERY_NOT_FOUND', id);
      const state = await job.getState();
      try {
        if (state === 'completed' || state === 'failed') {
          await job.retry(state, { resetAttemptsMade: true, resetAttemptsStarted: true });
        } else if (state === 'delayed') await job.promote();
      } catch (error) {
        // Somebody else was quicker.
        if ((await job.getState()) === state) throw error;
      }
      return this.get(id);
    });
  }

  /** Idempotent. */
  async close(): Promise<void> {
    await this.#queue.close();
  }

  async #read(id: string): Promise<DeliveryResource | undefined> {
    const job = await this.#queue.getJob(id);
    const data = DeliveryData.safeParse(job?.data).data;
    if (job === undefined || data === undefined) return undefined;
    const [state, { logs }, due] = await Promise.all([
      job.getState(),
      this.#queue.getJobLogs(id),
      this.#connection.zscore(bullKey(this.#connection, WEBHOOK_QUEUE, 'delayed'), id),
    ]);
    const { event, subject, url } = data;
    const { origin, pathname } = new URL(url);
    return {
      id,
      event,
      subject: { kind: subject.kind, id: subject.id },
      url: origin + pathname,
      state: stateOf(state),
      attempts: logs.flatMap((line) => DeliveryAttempt.safeParse(parseJson(line)).data ?? []),
      nextAttemptAt: due === null ? null : isoTime(Math.floor(Number(due) / SCORES_PER_MS)),
      createdAt: isoTime(job.timestamp),
    };
  }

  async #guard<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      throw toRedisError(error);
    }
  }
}

function stateOf(bullState: string): DeliveryState {
  switch (bullState) {
    case 'completed':
      return 'delivered';
    case 'failed':
      return 'failed';
    case 'active':
      return 'running';
    default:
      return 'waiting';
  }
}

function keyOf(subject: DeliverySubject): string {
  return subject.kind === 'job' ? `job:${subject.queue}:${subject.id}` : `batch:${subject.id}`;
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

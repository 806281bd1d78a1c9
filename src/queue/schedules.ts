/**
 * Schedules. They come due in a queue of their own (BullMQ's job schedulers); there housekeeping takes them and adds an
 * ordinary job to the model's queue, on the way that all jobs take. That job's id follows from schedule and time, so what
 * is done twice after a crash adds one job.
 */
import { type JobSchedulerJson, Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../core/errors.ts';
import {
  type NewSchedule,
  parseNewSchedule,
  ScheduledJob,
  type ScheduleId,
  type ScheduleTiming,
} from '../core/job/schedule.ts';
import { toRedisError } from './redis/connection.ts';
import { queuePrefix, SCHEDULE_QUEUE } from './redis/queue-names.ts';

/** While Redis is away. */
const TEMPLATE = {
  attempts: 1_000,
  backoff: { type: 'fixed', delay: 1_000 },
  removeOnComplete: true,
  removeOnFail: { count: 100 },
} as const;

const JOB_NAME = 'due';

export interface ScheduleView extends ScheduleTiming {
  readonly id: ScheduleId;
  readonly scheduled: ScheduledJob;
  /** Milliseconds since 1970. */
  readonly nextAt: number | undefined;
}

export class ScheduleStore {
  readonly #queue: Queue;
  #closing: Promise<void> | undefined;

  /** The connection stays the caller's. */
  constructor(connection: Redis) {
    this.#queue = new Queue(SCHEDULE_QUEUE, { connection, prefix: queuePrefix(connection) });
    // Commands report their own errors.
    this.#queue.on('error', () => undefined);
  }

  /**
   * Adds a schedule or puts it in the place of the one of that id. `everyMs` begins now.
   * @throws {WavepoolError} INVALID_REQUEST, REDIS_UNAVAILABLE
   */
  async set(schedule: NewSchedule): Promise<ScheduleView> {
    const { id, cron, everyMs, timezone, ...scheduled } = parseNewSchedule(schedule);
    const when =
      cron === undefined ? { every: everyMs ?? 0 } : { pattern: cron, tz: timezone ?? 'UTC' };
    try {
      await this.#queue.upsertJobScheduler(id, when, {
        name: JOB_NAME,
        data: scheduled,
        opts: TEMPLATE,
      });
    } catch (error) {
      const known = toRedisError(error);
      if (known instanceof WavepoolError) throw known;
      const why = error instanceof Error ? error.message : String(error);
      throw new WavepoolError('INVALID_REQUEST', `cron: ${why}`, { cause: error });
    }
    const stored = await this.get(id);
    if (stored === undefined) throw new WavepoolError('INVALID_REQUEST', 'it never comes due');
    return stored;
  }

  async get(id: ScheduleId): Promise<ScheduleView | undefined> {
    const stored = await this.#guard(() => this.#queue.getJobScheduler(id));
    return stored === undefined ? undefined : viewOf(stored);
  }

  /** In the order in which they come due. */
  async list(): Promise<ScheduleView[]> {
    const stored = await this.#guard(() => this.#queue.getJobSchedulers(0, -1, true));
    return stored.flatMap((each) => viewOf(each) ?? []);
  }

  /** Whether there was one. Jobs that it has made stay. */
  async remove(id: ScheduleId): Promise<boolean> {
    return this.#guard(() => this.#queue.removeJobScheduler(id));
  }

  /** Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#queue.close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #guard<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      throw toRedisError(error);
    }
  }
}

/** Undefined for one of another version. */
function viewOf({ key, pattern, every, tz, next, template }: JobSchedulerJson) {
  const scheduled = ScheduledJob.safeParse(template?.data).data;
  if (scheduled === undefined) return undefined;
  return {
    id: key,
    scheduled,
    nextAt: next === undefined ? undefined : Number(next),
    ...(pattern === undefined ? {} : { cron: pattern, timezone: tz }),
    ...(every === undefined ? {} : { everyMs: Number(every) }),
  } satisfies ScheduleView;
}

import { type Job, Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { failureToError, WavepoolError } from '../core/errors.ts';
import type { StreamId } from '../core/http/event-position.ts';
import {
  type JobData,
  type JobId,
  type JobOutcome,
  type ModelId,
  type NewJob,
  parseJobData,
  parseJobId,
} from '../core/job/job.ts';
import type { RateLimit } from '../core/job/tenant.ts';
import { NO_TRACING, type Tracing } from '../core/tracing.ts';
import type { HeldJob } from '../core/worker/ipc.ts';
import { followJobEvents, type JobEvent } from './events/job-event-iterator.ts';
import {
  type EventListener,
  type JobEventMap,
  JobEvents,
  type JobListener,
} from './events/job-events.ts';
import { JobIntake } from './job-intake.ts';
import { type CancelResult, cancelJob, clearCancelMark } from './jobs/cancellation.ts';
import { CRASH_LIMIT, type HandBackResult, handBack, KILL_LIMIT } from './jobs/handback.ts';
import { type JobCounts, readCounts } from './jobs/job-counts.ts';
import { type JobListOptions, listJobs } from './jobs/job-list.ts';
import { type JobView, viewOf } from './jobs/job-view.ts';
import { rememberModel } from './jobs/known-models.ts';
import { type JobParent, type PreparedJob, prepareJob } from './jobs/prepared-job.ts';
import { readRateLimit, writeRateLimit } from './jobs/rate-limit.ts';
import { telemetryOf } from './jobs/telemetry.ts';
import {
  checkRedis,
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
  toRedisError,
} from './redis/connection.ts';
import { queueNameOf, queuePrefix } from './redis/queue-names.ts';
import { ScheduleStore } from './schedules.ts';
import { WebhookDeliveries } from './webhooks/webhook-deliveries.ts';

const CHUNK = 500;

export type { CancelResult } from './jobs/cancellation.ts';
export type { JobCounts } from './jobs/job-counts.ts';

export interface AudioQueueOptions {
  readonly address: RedisAddress;
  readonly model: ModelId;
  /**
   * What calls do while Redis is away: fail with REDIS_UNAVAILABLE, or wait for it.
   * @defaultValue 'fail'
   */
  readonly whenDisconnected?: 'fail' | 'wait' | undefined;
  /**
   * How often the state of watched jobs is read, in case their events were lost.
   * @defaultValue 15 000
   */
  readonly reconcileIntervalMs?: number | undefined;
  /** @defaultValue none */
  readonly tracing?: Tracing | undefined;
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: (() => number) | undefined;
}

/** The jobs of one model: adds, reads, watches, cancels and retries them. Loads no native code. */
export class AudioQueue {
  readonly model: ModelId;
  /** The queue's name in Redis and in messages between processes. */
  readonly name: string;
  readonly #options: AudioQueueOptions;
  readonly #connection: Redis;
  readonly #queue: Queue;
  readonly #events: JobEvents;
  #deliveries: WebhookDeliveries | undefined;
  readonly #intake: JobIntake;
  #schedules: ScheduleStore | undefined;
  #closing: Promise<void> | undefined;

  private constructor(options: AudioQueueOptions, connection: Redis, events: JobEvents) {
    this.#options = options;
    this.model = options.model;
    this.name = queueNameOf(options.model);
    this.#connection = connection;
    this.#events = events;
    const telemetry = telemetryOf(options.tracing ?? NO_TRACING);
    this.#queue = new Queue(this.name, {
      connection,
      prefix: queuePrefix(connection),
      ...telemetry,
    });
    // Commands report their own errors.
    this.#queue.on('error', () => undefined);
    this.#intake = new JobIntake({ ...options, connection, queue: this.#queue });
  }

  /**
   * Connects and checks the server. Every event from now on is seen.
   * @throws {WavepoolError} INVALID_REQUEST, REDIS_UNAVAILABLE, REDIS_UNSUITABLE
   */
  static async open(options: AudioQueueOptions): Promise<AudioQueue> {
    const { address, model, whenDisconnected = 'fail', reconcileIntervalMs = 15_000 } = options;
    const queue = queueNameOf(model);
    const role = whenDisconnected === 'wait' ? 'patient' : 'fail-fast';
    const connection = openConnection(address, { role, name: 'queue' });
    await connect(connection, address);
    try {
      await checkRedis(connection);
      const events = await JobEvents.open({ address, queue, reconcileIntervalMs });
      return new AudioQueue(options, connection, events);
    } catch (error) {
      closeConnection(connection);
      throw error;
    }
  }

  /**
   * Adds a job. With an id that the queue still knows nothing is added: see `get` and `retry`.
   * @throws {WavepoolError} INVALID_REQUEST, REDIS_UNAVAILABLE
   */
  async add(job: NewJob): Promise<JobId> {
    return (await this.submit(job)).id;
  }

  /**
   * Like `add`, and tells what was added without asking for it: an id that the queue knew makes that wrong.
   * @throws {WavepoolError} INVALID_REQUEST, REDIS_UNAVAILABLE
   */
  async submit(job: NewJob): Promise<JobView> {
    const prepared = this.#prepare(job);
    await this.#submission(1, () => this.#intake.add(prepared));
    const { data, opts } = prepared;
    const { jobId: id, delay = 0 } = opts;
    return {
      id,
      state: delay > 0 ? 'delayed' : 'waiting',
      data,
      priority: data.priority ?? 0,
      attemptsMade: 0,
      progress: undefined,
      startedAt: undefined,
      finishedAt: undefined,
      outcome: undefined,
      failure: undefined,
    };
  }

  /**
   * Adds all jobs, or fails having added some. Jobs that carry their own ids may be added again after a failure.
   * @param parent is told how each of them ends; a job that fails does not fail it
   * @returns the ids, in order
   * @throws {WavepoolError} INVALID_REQUEST before anything is added, REDIS_UNAVAILABLE
   */
  async addMany(jobs: readonly NewJob[], parent?: JobParent): Promise<JobId[]> {
    const prepared = jobs.map((job) => this.#prepare(job, parent));
    await this.#submission(prepared.length, () => this.#intake.addMany(prepared));
    return prepared.map(({ opts }) => opts.jobId);
  }

  /** Undefined when the queue does not know the job, or no longer. */
  async get(id: JobId): Promise<JobView | undefined> {
    return this.#guard(async () => {
      const read = () => this.#queue.getJob(parseJobId(id));
      const job = await read();
      return job === undefined ? undefined : viewOf(job, id, read);
    });
  }

  /** The jobs that the queue knows, by id. */
  async getMany(ids: readonly JobId[]): Promise<Map<JobId, JobView>> {
    const views = new Map<JobId, JobView>();
    for (let start = 0; start < ids.length; start += CHUNK) {
      const chunk = ids.slice(start, start + CHUNK);
      for (const view of await Promise.all(chunk.map((id) => this.get(id)))) {
        if (view !== undefined) views.set(view.id, view);
      }
    }
    return views;
  }

  /** Jobs by state, the latest first. */
  async list(options: JobListOptions): Promise<JobView[]> {
    return this.#guard(() => listJobs(this.#queue, options));
  }

  async counts(): Promise<JobCounts> {
    return this.#guard(() => readCounts(this.#connection, this.model));
  }

  /**
   * Runs a failed or cancelled job once more from the beginning, with all its attempts.
   * @returns false when it is in another state
   * @throws {WavepoolError} JOB_NOT_FOUND, JOB_TOO_NEW, REDIS_UNAVAILABLE
   */
  async retry(id: JobId): Promise<boolean> {
    return this.#guard(async () => {
      const job = await this.#find(id);
      if ((await job.getState()) !== 'failed') return false;
      const data = parseJobData(job.data);
      await clearCancelMark(this.#connection, this.name, id);
      await this.#tellEnd(job, id);
      await this.#intake.index([{ id, data }]);
      // One more chance, and alone in its batch as after any crash.
      const { crashCount, killCount = 0 } = data;
      if (crashCount >= CRASH_LIMIT || killCount >= KILL_LIMIT) {
        await job.updateData({ ...data, crashCount: CRASH_LIMIT - 1, killCount: 0 });
      }
      await this.#intake.forgetPlace(id);
      try {
        await job.retry('failed', { resetAttemptsMade: true, resetAttemptsStarted: true });
        this.#intake.changed(job.data);
        return true;
      } catch (error) {
        // Somebody else was quicker.
        if ((await job.getState()) === 'failed') throw error;
        return false;
      }
    });
  }

  /**
   * Ends a waiting job at once; asks the worker of a running one to stop.
   * @throws {WavepoolError} JOB_NOT_FOUND, REDIS_UNAVAILABLE
   */
  async cancel(id: JobId): Promise<CancelResult> {
    return this.#guard(async () => {
      const job = await this.#find(id);
      const result = await cancelJob(this.#connection, this.name, job, id);
      if (result === 'cancelled') this.#intake.changed(job.data);
      return result;
    });
  }

  /** How many jobs of this queue may start in a time, over all workers; undefined when nobody has set a limit. */
  async rateLimit(): Promise<RateLimit | undefined> {
    return this.#guard(() => readRateLimit(this.#connection, this.name));
  }

  /**
   * Counts from now on.
   * @param limit undefined ends it
   * @throws {WavepoolError} INVALID_REQUEST, REDIS_UNAVAILABLE
   */
  async setRateLimit(limit: RateLimit | undefined): Promise<void> {
    await this.#guard(() => writeRateLimit(this.#queue, limit));
    await this.#guard(() => rememberModel(this.#connection, this.model));
  }

  /** Jobs of any model that come again and again; it lives as long as this queue. */
  get schedules(): ScheduleStore {
    this.#schedules ??= new ScheduleStore(this.#connection);
    return this.#schedules;
  }

  /**
   * Forgets a job that does not run; its result stays in the store.
   * @returns false when it runs, or is not known
   */
  async remove(id: JobId): Promise<boolean> {
    return this.#guard(async () => {
      const job = await this.#queue.getJob(parseJobId(id));
      if (job === undefined) return false;
      await this.#tellEnd(job, id);
      if ((await this.#queue.remove(id)) !== 1) return false;
      await clearCancelMark(this.#connection, this.name, id);
      return true;
    });
  }

  /**
   * Waits for a job to end, whenever it does or did. It may know before the job's event reaches the listeners of `on`.
   * @throws {WavepoolError} with the code of the job's failure; JOB_NOT_FOUND; the signal's reason when it aborts
   */
  async waitFor(id: JobId, signal?: AbortSignal): Promise<JobOutcome> {
    const end = await this.#guard(() => this.#events.waitForEnd(parseJobId(id), signal));
    switch (end.kind) {
      case 'completed':
        return end.outcome;
      case 'failed':
        throw failureToError(`${end.failure.code}: ${end.failure.message}`);
      case 'removed':
        throw new WavepoolError('JOB_NOT_FOUND', id);
    }
  }

  /** Events of all jobs of the queue, from any process. */
  on<Name extends keyof JobEventMap>(name: Name, listener: JobListener<Name>): this {
    this.#events.on(name, listener);
    return this;
  }

  off<Name extends keyof JobEventMap>(name: Name, listener: JobListener<Name>): this {
    this.#events.off(name, listener);
    return this;
  }

  /**
   * Promises one `completed`, `failed` or `removed` for each of these jobs, even if it ended before or its event is lost.
   * Call it after the jobs were added; watch again after a retry.
   */
  async watch(ids: readonly JobId[]): Promise<void> {
    await this.#guard(() => this.#events.watch(ids));
  }

  unwatch(ids: readonly JobId[]): void {
    this.#events.unwatch(ids);
  }

  /**
   * What happens to a job from the beginning of the loop on; its end comes last, whenever it was. Leaving the loop stops
   * listening.
   * @throws {WavepoolError} REDIS_UNAVAILABLE; the signal's reason when it aborts
   */
  events(id: JobId, options?: { signal?: AbortSignal }): AsyncGenerator<JobEvent, void> {
    return followJobEvents(this.#events, { ...options, model: this.model, id: parseJobId(id) });
  }

  /** The place in the queue's event stream up to which listeners have been told. */
  get eventPosition(): StreamId {
    return this.#events.position;
  }

  /** Everything in the queue's event stream after `eventPosition`, as it comes. Returns what ends it. */
  listen(listener: EventListener): () => void {
    return this.#events.listen(listener);
  }

  /** Gives the jobs of a dead worker process back to the queue: see `handBack`. */
  async handBack(
    held: readonly HeldJob[],
    workerIds: readonly string[] = [],
  ): Promise<Map<string, HandBackResult>> {
    return this.#guard(() => handBack(this.#queue, this.#connection, held, workerIds));
  }

  /** Idempotent. */
  close(): Promise<void> {
    this.#closing ??= (async () => {
      this.#events.close();
      await this.#intake.close();
      await this.#schedules?.close();
      await this.#queue.close();
      await this.#deliveries?.close();
      closeConnection(this.#connection);
    })();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Where the trace of a job begins. */
  #submission(jobs: number, add: () => Promise<void>): Promise<void> {
    const { tracing = NO_TRACING } = this.#options;
    const attributes = { 'wavepool.model': this.model, 'wavepool.jobs': jobs };
    return tracing.run('submit', { attributes }, () => this.#guard(add));
  }

  /** The end of a job is about to be forgotten: its webhook is told of it first. */
  async #tellEnd(job: Job<JobData>, id: JobId): Promise<void> {
    if (job.data.webhook === undefined) return;
    this.#deliveries ??= new WebhookDeliveries(this.#connection, this.#options.now);
    await this.#deliveries.tell(this.#queue, job, id);
  }

  #prepare(job: NewJob, parent?: JobParent): PreparedJob {
    const submittedAt = (this.#options.now ?? Date.now)();
    const prefix = queuePrefix(this.#connection);
    return prepareJob(job, { model: this.model, submittedAt, parent, prefix });
  }

  async #find(id: JobId) {
    const job = await this.#queue.getJob(parseJobId(id));
    if (job === undefined) throw new WavepoolError('JOB_NOT_FOUND', id);
    return job;
  }

  async #guard<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      throw toRedisError(error);
    }
  }
}

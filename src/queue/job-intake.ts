/** The way into a queue: what is remembered of a job before it is there, the job itself, and its place among others. */
import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { type JobData, type JobId, type ModelId, parseJobData } from '../core/job/job.ts';
import { addChunk } from './jobs/add-jobs.ts';
import { rememberDeadlines } from './jobs/deadlines.ts';
import { rememberModel } from './jobs/known-models.ts';
import type { PreparedJob } from './jobs/prepared-job.ts';
import { bullKey } from './redis/queue-names.ts';
import {
  FairShare,
  type FairShareOptions,
  Settling,
  STAGED_AT,
  UNPLACED,
} from './tenants/fair-share.ts';
import { KnownLimits } from './tenants/tenant-rules.ts';
import { rememberWebhooks } from './webhooks/webhook-jobs.ts';

const CHUNK = 500;

export interface JobIntakeOptions extends FairShareOptions {
  readonly connection: Redis;
  readonly queue: Queue;
  readonly model: ModelId;
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: (() => number) | undefined;
}

export class JobIntake {
  readonly #options: JobIntakeOptions;
  readonly #share: FairShare;
  readonly #settling: Settling;
  readonly #limits: KnownLimits;
  #remembered: Promise<void> | undefined;

  /** Connection and queue stay the caller's. */
  constructor(options: JobIntakeOptions) {
    const { connection, queue } = options;
    this.#options = options;
    this.#share = new FairShare(connection, queue.name, options);
    // What could not be settled now is settled by housekeeping, or with the next job.
    this.#settling = new Settling({ share: this.#share, pauseMs: 0, onError: () => undefined });
    this.#limits = new KnownLimits(connection);
  }

  /** The job is in the queue when this resolves; its place among others is found without anybody waiting for it. */
  async add(job: PreparedJob): Promise<void> {
    const { queue } = this.#options;
    const [ready] = await this.#prepare([job]);
    if (ready === undefined) return;
    await this.index([indexed(job)]);
    await queue.add(ready.name, ready.data, ready.opts);
    if (needsPlace(ready)) this.#settling.ask(ready.data.tenant);
  }

  /** Adds all, or fails having added some. They have their places when this resolves. */
  async addMany(jobs: readonly PreparedJob[]): Promise<void> {
    const { connection, queue } = this.#options;
    const ready = await this.#prepare(jobs);
    for (let start = 0; start < ready.length; start += CHUNK) {
      const chunk = ready.slice(start, start + CHUNK);
      await this.index(chunk.map(indexed));
      await addChunk(queue, connection, chunk);
      const tenants = new Set(chunk.filter(needsPlace).map(({ data }) => data.tenant));
      if (tenants.size > 0) await this.#share.settle(tenants);
    }
  }

  /** Before a job that has failed is run once more: its place of old means nothing any more. */
  async forgetPlace(id: JobId): Promise<void> {
    const { connection, queue } = this.#options;
    const key = bullKey(connection, queue.name, id);
    const [priority] = await connection.hmget(key, 'priority');
    // Somebody waits for those that have none.
    if (Number(priority) > 0) await connection.hset(key, 'priority', UNPLACED);
  }

  /** A job of the tenant waits again, or waits no more. */
  changed(rawData: unknown): void {
    this.#settling.ask(parseJobData(rawData).tenant);
  }

  /** Idempotent. */
  async close(): Promise<void> {
    await this.#settling.close();
  }

  /** What must be found again whatever happens to the jobs. */
  async index(jobs: readonly IndexedJob[]): Promise<void> {
    const { connection, queue, now = Date.now } = this.#options;
    await rememberDeadlines(connection, queue.name, jobs);
    await rememberWebhooks(connection, queue.name, jobs, now());
  }

  async #prepare(jobs: readonly PreparedJob[]): Promise<PreparedJob[]> {
    await this.#remember();
    return Promise.all(jobs.map((job) => this.#heldBack(job)));
  }

  /** Jobs of limited tenants are never where a worker could take them before they are counted. */
  async #heldBack(job: PreparedJob): Promise<PreparedJob> {
    const { data, opts } = job;
    if ((opts.delay ?? 0) > 0 || !(await this.#limits.isLimited(data.tenant))) return job;
    return {
      ...job,
      opts: { ...opts, priority: UNPLACED, delay: STAGED_AT - data.submittedAt },
    };
  }

  /** Once is enough; see `readKnownModels`. */
  #remember(): Promise<void> {
    const { connection, model } = this.#options;
    this.#remembered ??= rememberModel(connection, model).catch((error: unknown) => {
      this.#remembered = undefined;
      throw error;
    });
    return this.#remembered;
  }
}

interface IndexedJob {
  readonly id: JobId;
  readonly data: JobData;
}

function indexed({ data, opts }: PreparedJob): IndexedJob {
  return { id: opts.jobId, data };
}

/** Not what somebody waits for, nor what is not due yet. */
function needsPlace({ opts: { priority = 0, delay = 0, timestamp = 0 } }: PreparedJob): boolean {
  return priority > 0 && (delay === 0 || timestamp + delay === STAGED_AT);
}

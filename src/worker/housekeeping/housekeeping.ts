/**
 * Work that any one process has to do: finishing batches, opening the gates of batches whose producer is gone, forgetting old
 * batches, failing jobs that wait past their deadline, letting staged jobs in, adding the jobs of schedules, removing commands
 * to workers that are gone, and telling webhooks (`webhooks.ts`). Any number of processes may run it. BullMQ gives each task to
 * one of them, and a task that is done twice changes nothing.
 */
import { DelayedError, type Job, Queue, WaitingChildrenError, Worker } from 'bullmq';
import type { BatchCounts } from '../../core/job/batch.ts';
import type { Logger } from '../../core/logger.ts';
import { GATE_JOB, type GateData, PARENT_JOB } from '../../queue/batches/batch-flow.ts';
import { BatchRecords } from '../../queue/batches/batch-records.ts';
import { sweepControlQueues } from '../../queue/fleet/control.ts';
import { failOverdue } from '../../queue/jobs/deadlines.ts';
import { readKnownModels } from '../../queue/jobs/known-models.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from '../../queue/redis/connection.ts';
import { BATCH_QUEUE, queueNameOf, queuePrefix } from '../../queue/redis/queue-names.ts';
import { FairShare } from '../../queue/tenants/fair-share.ts';
import { ScheduleRunner } from './schedule-runner.ts';
import { type WebhookSettings, Webhooks } from './webhooks.ts';

/** Batches are kept for this long after their last item has ended, which is as long as their failed jobs are kept. */
const RETENTION_MS = 30 * 86_400_000;
const SWEEP_MS = 3_600_000;
const DEADLINES_MS = 1_000;
const SETTLE_MS = 1_000;
/** A worker that has no presence counts as gone this long after the last command to it. */
const CONTROL_RETENTION_MS = 600_000;
const CONCURRENT = 4;

type Connection = ReturnType<typeof openConnection>;

export interface HousekeepingOptions {
  readonly address: RedisAddress;
  readonly logger: Logger;
  /** @defaultValue secrets in Redis, public addresses only */
  readonly webhooks?: WebhookSettings | undefined;
  /** @defaultValue 30 days */
  readonly retentionMs?: number | undefined;
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: (() => number) | undefined;
}

export class Housekeeping implements AsyncDisposable {
  readonly #options: HousekeepingOptions;
  readonly #now: () => number;
  readonly #connection: Connection;
  readonly #records: BatchRecords;
  readonly #worker: Worker;
  readonly #webhooks: Webhooks;
  readonly #schedules: ScheduleRunner;
  readonly #timers: readonly NodeJS.Timeout[];
  /** Queues by name, for jobs whose deadline has passed and for webhooks. */
  readonly #queues = new Map<string, Queue>();
  #expiring: Promise<number> | undefined;
  #settling: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  private constructor(options: HousekeepingOptions, connection: Connection) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#connection = connection;
    this.#records = new BatchRecords(connection, this.#now);
    this.#worker = new Worker(BATCH_QUEUE, (job, token = '') => this.#run(job, token), {
      connection,
      prefix: queuePrefix(connection),
      concurrency: CONCURRENT,
      maxStalledCount: 1_000,
    });
    this.#worker.on('error', (error) => options.logger.debug({ err: error }, 'housekeeping'));
    this.#worker.on('failed', (_job, error) => {
      options.logger.warn({ err: error }, 'housekeeping failed and will be tried again');
    });
    this.#webhooks = new Webhooks({
      connection,
      queueOf: (name) => this.#queueOf(name),
      logger: options.logger,
      settings: options.webhooks ?? {},
      now: this.#now,
    });
    const { logger } = options;
    this.#schedules = new ScheduleRunner({ connection, now: this.#now, logger });
    const every = (ms: number, task: () => Promise<unknown>, failure: string) =>
      setInterval(() => {
        task().catch((error: unknown) => options.logger.warn({ err: error }, failure));
      }, ms).unref();
    this.#timers = [
      every(SWEEP_MS, () => this.sweep(), 'what is old could not be removed'),
      every(DEADLINES_MS, () => this.expire(), 'deadlines could not be looked at'),
      every(SETTLE_MS, () => this.settle(), 'staged jobs could not be let in'),
    ];
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async start(options: HousekeepingOptions): Promise<Housekeeping> {
    const connection = openConnection(options.address, { role: 'patient', name: 'housekeeping' });
    await connect(connection, options.address);
    return new Housekeeping(options, connection);
  }

  /** Forgets batches that finished long ago, and commands to workers that are gone. */
  async sweep(): Promise<void> {
    const { retentionMs = RETENTION_MS } = this.#options;
    await this.#records.removeFinishedBefore(this.#now() - retentionMs);
    await sweepControlQueues(this.#connection, this.#now() - CONTROL_RETENTION_MS);
  }

  /** Fails the jobs that wait past their deadline; this also happens every second. @returns how many */
  expire(): Promise<number> {
    // While Redis is away, only one call waits for it, instead of one more each second.
    this.#expiring ??= failOverdue(
      this.#connection,
      (name) => this.#queueOf(name),
      this.#now(),
    ).finally(() => {
      this.#expiring = undefined;
    });
    return this.#expiring;
  }

  /** Gives every waiting job its place among the jobs of all tenants; this also happens every second. */
  settle(): Promise<void> {
    this.#settling ??= this.#settle().finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  async #settle(): Promise<void> {
    for (const model of await readKnownModels(this.#connection)) {
      await new FairShare(this.#connection, queueNameOf(model)).settle('all');
    }
  }

  /** Waits for the tasks that are under way. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= (async () => {
      for (const timer of this.#timers) clearInterval(timer);
      await Promise.all([this.#worker.close(), this.#webhooks.close(), this.#schedules.close()]);
      await Promise.allSettled([this.#expiring, this.#settling]);
      await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
      await this.#records.dispose();
      closeConnection(this.#connection);
    })();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #queueOf(name: string): Queue {
    const known = this.#queues.get(name);
    if (known !== undefined) return known;
    const queue = new Queue(name, {
      connection: this.#connection,
      prefix: queuePrefix(this.#connection),
    });
    queue.on('error', (error) => this.#options.logger.debug({ err: error }, 'housekeeping'));
    this.#queues.set(name, queue);
    return queue;
  }

  async #run(job: Job, token: string): Promise<BatchCounts | undefined> {
    switch (job.name) {
      case PARENT_JOB:
        return this.#finish(job, token);
      case GATE_JOB:
        return this.#openGate(job, token);
      default:
        throw new TypeError(`no task is called ${job.name}`);
    }
  }

  async #finish(job: Job, token: string): Promise<BatchCounts | undefined> {
    // Items were retried or added, so the batch has to wait again.
    if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError();
    const id = String(job.id);
    const counts = await this.#records.finish(id);
    this.#options.logger.info({ batchId: id, ...counts }, 'batch finished');
    return counts;
  }

  async #openGate(job: Job<GateData>, token: string): Promise<undefined> {
    const { batchId, idleMs } = job.data;
    const patience = await this.#records.patience(batchId, idleMs);
    if (patience > 0) {
      await job.moveToDelayed(Date.now() + patience, token);
      throw new DelayedError();
    }
    this.#options.logger.info({ batchId }, 'the gate of a batch was opened');
    return undefined;
  }
}

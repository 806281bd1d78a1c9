/** The queue of one model as a worker serves it: takes jobs, hears cancel requests, keeps locks. BullMQ does the rest. */
import { setTimeout as delay } from 'node:timers/promises';
import { DelayedError, type Job, WaitingError, Worker } from 'bullmq';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import {
  type JobData,
  type JobOutcome,
  JobOwner,
  type JobProgress,
  type PartialSegment,
  parseJobData,
} from '../../core/job/job.ts';
import type { Logger } from '../../core/logger.ts';
import { NO_TRACING, type Tracing } from '../../core/tracing.ts';
import { SegmentWriter } from '../../queue/events/segment-stream.ts';
import { CancellationListener, type CancellationWatch } from '../../queue/jobs/cancellation.ts';
import { toQueueError } from '../../queue/jobs/failures.ts';
import { telemetryOf } from '../../queue/jobs/telemetry.ts';
import { PartLine } from '../../queue/part-line.ts';
import { openConnection, type RedisAddress, toRedisError } from '../../queue/redis/connection.ts';
import { queueNameOf, queuePrefix } from '../../queue/redis/queue-names.ts';
import { STAGED_AT } from '../../queue/tenants/fair-share.ts';
import { type HeldJobs, LockLostError } from './held-jobs.ts';
import { JobLanes, type Lane } from './job-lanes.ts';
import type { JobProcessor } from './job-processor.ts';
import { LostReplies } from './lost-replies.ts';
import type { Quarantine } from './quarantine.ts';
import { TenantGate } from './tenant-gate.ts';

/** BullMQ waits so long before it tells Redis of a job's end once more. */
const RETRY_DELAY_MS = 1_000;
/** Between two questions to a Redis that has no room. */
const NO_ROOM_RETRY_MS = 500;
/** A job of a newer version is left to newer workers for so long, before it is looked at again. */
const TOO_NEW_DELAY_MS = 5_000;
/** Only the backstop for a lost machine: crashes are counted and limited by the hand-back. */
const MAX_STALLED_COUNT = 5;

type TranscribeJob = Job<JobData, JobOutcome>;

export interface ModelQueueOptions {
  readonly address: RedisAddress;
  readonly model: string;
  readonly processor: JobProcessor;
  readonly held: HeldJobs;
  /** Of the whole worker process. */
  readonly quarantine: Quarantine;
  /** Long enough for a busy event loop, short enough that a lost machine's jobs are soon somebody else's. */
  readonly lockDurationMs: number;
  readonly stalledIntervalMs: number;
  /** Jobs that run at once, long ones aside: see `JobLanes`. */
  readonly concurrency: number;
  readonly longJobMs: number;
  /** @defaultValue none */
  readonly tracing?: Tracing | undefined;
  readonly logger: Logger;
}

export class ModelQueue {
  readonly #options: ModelQueueOptions;
  readonly #name: string;
  readonly #connection: ReturnType<typeof openConnection>;
  readonly #cancellations: CancellationListener;
  readonly #lanes: JobLanes;
  readonly #gate: TenantGate;
  /** The jobs that BullMQ has passed on. */
  readonly #taken = new Map<string, TakenJob>();
  #closed: Promise<void> | undefined;

  private constructor(
    options: ModelQueueOptions,
    connection: ReturnType<typeof openConnection>,
    cancellations: CancellationListener,
  ) {
    this.#options = options;
    this.#connection = connection;
    this.#cancellations = cancellations;
    const { model, concurrency, longJobMs, logger } = options;
    this.#name = queueNameOf(model);
    this.#gate = new TenantGate({ connection: this.#connection, queue: this.#name, logger });
    this.#lanes = new JobLanes({
      open: (places) => this.#openLane(places),
      places: concurrency,
      longAfterMs: longJobMs,
      onError: (err) => logger.error({ err }, 'the queue reader stopped'),
    });
  }

  /** Ready, but takes no jobs yet. @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async open(options: ModelQueueOptions): Promise<ModelQueue> {
    const { address, model, logger } = options;
    const onError = (err: unknown) => logger.warn({ err, model }, 'cancel request not read');
    const connection = openConnection(address, { role: 'patient', name: `worker:${model}` });
    const cancellations = await CancellationListener.open({
      address,
      queue: queueNameOf(model),
      reader: connection,
      onError,
    }).catch((error: unknown) => {
      connection.disconnect();
      throw error;
    });
    const queue = new ModelQueue(options, connection, cancellations);
    await queue.#lanes.ready();
    return queue;
  }

  /** Takes jobs from now on. */
  start(): void {
    this.#lanes.start();
  }

  /** Fewer than are running lets those end. */
  set concurrency(jobs: number) {
    this.#lanes.places = jobs;
  }

  /** Takes no more jobs and waits for the running ones, however they end. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= (async () => {
      await this.#lanes.close();
      await this.#gate.close();
      this.#cancellations.close();
      this.#connection.disconnect();
    })();
    return this.#closed;
  }

  #openLane(places: number): Lane {
    const { held, logger, model, lockDurationMs, stalledIntervalMs } = this.#options;
    const connection = this.#connection;
    // BullMQ gives a signal only to three declared parameters; ours comes from `HeldJobs`, so two are enough.
    const worker = new Worker<JobData, JobOutcome>(
      this.#name,
      (job: TranscribeJob, token = '') => this.#run(job, token),
      {
        connection,
        prefix: queuePrefix(connection),
        autorun: false,
        concurrency: places,
        lockDuration: lockDurationMs,
        stalledInterval: stalledIntervalMs,
        maxStalledCount: MAX_STALLED_COUNT,
        runRetryDelay: RETRY_DELAY_MS,
        ...telemetryOf(this.#options.tracing ?? NO_TRACING),
      },
    );
    held.taking(this.#name, worker.id);
    const isKnown = (jobId: string, token: string) => this.#taken.get(jobId)?.token === token;
    const lostReplies = new LostReplies({ connection, worker, isKnown, logger });
    const look = () => void lostReplies.look();
    const release = (job: TranscribeJob | undefined): void => {
      if (job) this.#leave(job);
    };
    worker.on('completed', release).on('failed', release);
    connection.on('ready', look);
    worker.on('lockRenewalFailed', (jobIds) => {
      for (const jobId of jobIds) held.abort(this.#name, jobId, new LockLostError(jobId));
    });
    worker.on('error', (err) => logger.warn({ err, model }, 'queue error'));
    return {
      set concurrency(jobs: number) {
        worker.concurrency = jobs;
      },
      ready: () => worker.waitUntilReady(),
      run: () => worker.run(),
      close: async () => {
        await worker.close();
        connection.off('ready', look);
        await lostReplies.close();
      },
    };
  }

  /** A job has ended, or waits again: another of its tenant may come. */
  #leave(job: TranscribeJob): void {
    const jobId = String(job.id);
    const tenant = this.#taken.get(jobId)?.tenant ?? ownerOf(job).tenant;
    this.#release(jobId);
    this.#gate.left(tenant);
  }

  /** The queue knows the job's end, or it is another worker's now. */
  #release(jobId: string): void {
    this.#taken.delete(jobId);
    this.#options.held.release(this.#name, jobId);
  }

  /** One delivery of a job. What it throws is what BullMQ understands. */
  async #run(job: TranscribeJob, token: string): Promise<JobOutcome> {
    const { held, quarantine, processor } = this.#options;
    const jobId = String(job.id);
    const logger = this.#options.logger.child({ jobId, queue: this.#name });
    // Progress is for watchers: a job does not fail because it could not be told.
    let told: Promise<void> = Promise.resolve();
    const onProgress = (progress: JobProgress): void => {
      told = job.updateProgress(progress).catch((err: unknown) => {
        logger.debug({ err }, 'progress could not be told');
      });
    };
    let cancellation: CancellationWatch | undefined;
    let leave: (() => void) | undefined;
    const leaveLane = this.#lanes.enter();
    this.#taken.set(jobId, { token });
    try {
      const data = parseJobData(job.data);
      this.#taken.set(jobId, { token, tenant: data.tenant });
      const { submittedAt } = data;
      const signal = held.hold(this.#name, jobId, token, data.clocks);
      const cancel = (reason: WavepoolError) => void held.abort(this.#name, jobId, reason);
      cancellation = await this.#cancellations.watch({ id: jobId, submittedAt, cancel });
      if (!(await this.#gate.enter(jobId, data))) throw new TenantBusyError();
      signal.throwIfAborted();
      leave = await quarantine.enter(isSuspect(data), signal);
      held.start(this.#name, jobId);
      const partials = data.partials
        ? new SegmentWriter(this.#connection, this.#name, jobId)
        : undefined;
      const running = processor.process({
        jobId,
        data,
        priority: data.interactive ? 0 : (data.priority ?? job.priority),
        attempt: job.attemptsMade + 1,
        signal,
        logger,
        onProgress,
        openParts: () =>
          PartLine.open({
            address: this.#options.address,
            model: data.model,
            jobId,
            priority: job.priority,
          }),
        onSegment: partials && ((segment: PartialSegment) => partials.append(segment)),
        assertOwned: () => this.#assertOwned(job, token, signal),
      });
      const outcome = await running.finally(() => told);
      await partials?.flushed();
      return outcome;
    } catch (thrown) {
      throw await this.#explain(thrown, job, token, logger);
    } finally {
      leaveLane();
      leave?.();
      cancellation?.stop();
      held.settle(this.#name, jobId);
    }
  }

  /**
   * While Redis takes no writes the question waits: the work is done, and is not to be thrown away for that.
   * @throws {LockLostError} when the job's lock has run out, so that another worker may have it.
   */
  async #assertOwned(job: TranscribeJob, token: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      try {
        const extended = await job.extendLock(token, this.#options.lockDurationMs);
        if (extended !== 1) throw new LockLostError(String(job.id));
        return;
      } catch (error) {
        const known = toRedisError(error);
        if (!(known instanceof WavepoolError) || known.code !== 'REDIS_FULL') throw error;
        await delay(NO_ROOM_RETRY_MS);
      }
    }
  }

  /** Turns what ended a job into what its queue understands. */
  async #explain(thrown: unknown, job: TranscribeJob, token: string, logger: Logger) {
    if (thrown instanceof LockLostError) {
      logger.warn('the job belongs to another worker now; its result here was dropped');
      this.#release(String(job.id));
      return new WaitingError(thrown.message);
    }
    if (thrown instanceof TenantBusyError) {
      await job.moveToDelayed(STAGED_AT, token);
      this.#leave(job);
      return new DelayedError();
    }
    const error = toWavepoolError(thrown);
    if (error.code === 'SHUTTING_DOWN') {
      await job.moveToWait(token);
      this.#release(String(job.id));
      return new WaitingError(error.message);
    }
    if (error.code === 'JOB_TOO_NEW') {
      logger.warn({ code: error.code }, error.message);
      await job.moveToDelayed(Date.now() + TOO_NEW_DELAY_MS, token);
      this.#release(String(job.id));
      return new DelayedError(error.message);
    }
    if (error.code === 'INTERNAL') logger.error({ err: thrown }, 'job failed unexpectedly');
    else logger.info({ code: error.code }, error.message);
    return toQueueError(error);
  }
}

interface TakenJob {
  /** Of its lock. */
  readonly token: string;
  /** Once the job has been read. */
  readonly tenant?: string;
}

/** The job was taken without a place, and its tenant has as many running as it may. */
class TenantBusyError extends Error {}

/** Of a job of any version. */
function ownerOf({ data }: Pick<Job, 'data'>): JobOwner {
  return JobOwner.safeParse(data).data ?? JobOwner.parse({});
}

/** Whether a worker died while it held the job. */
function isSuspect({ crashCount, killCount = 0 }: JobData): boolean {
  return crashCount + killCount > 0;
}

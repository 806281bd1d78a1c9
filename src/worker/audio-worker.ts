/**
 * A worker: loads its models, takes jobs from their queues, runs them, reports what it holds.
 *
 *   start() ──▶ loading ──▶ taking jobs ──close(deadline)──▶ draining ──deadline──▶ handing back ──▶ closed
 *
 * BullMQ keeps locks, stall checks, retries and events; this class maps its jobs to the processor and back.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Job, WaitingError, Worker } from 'bullmq';
import { toWavepoolError, WavepoolError } from '../core/errors.ts';
import type { WorkerMessage } from '../core/ipc.ts';
import { type JobData, type JobOutcome, type JobProgress, parseJobData } from '../core/job.ts';
import type { Logger } from '../core/logger.ts';
import { packageVersion } from '../core/package-version.ts';
import type { WorkerPresence } from '../core/status.ts';
import type { WorkerModel, WorkerSettings } from '../core/worker-settings.ts';
import { CancellationListener, type CancellationWatch } from '../queue/cancellation.ts';
import { openConnection } from '../queue/connection.ts';
import { toQueueError } from '../queue/failures.ts';
import { PresencePublisher } from '../queue/presence.ts';
import { QUEUE_PREFIX, queueNameOf } from '../queue/queue-names.ts';
import { SegmentWriter } from '../queue/segment-stream.ts';
import type { Engine } from '../runtime/engine.ts';
import type { ResultStore } from '../storage/result-store.ts';
import { HeldJobs, LockLostError } from './held-jobs.ts';
import { JobProcessor } from './job-processor.ts';
import { jobConcurrency, loadServedModels, type ServedModels } from './served-models.ts';

/** Long enough for a busy event loop, short enough that a lost machine's jobs are soon somebody else's. */
const LOCK_DURATION_MS = 60_000;
const STALLED_INTERVAL_MS = 30_000;
/** Only the backstop for a lost machine: crashes are counted and limited by the hand-back. */
const MAX_STALLED_COUNT = 5;

type TranscribeJob = Job<JobData, JobOutcome>;
type ModelWorker = Worker<JobData, JobOutcome>;

export interface AudioWorkerOptions {
  readonly settings: WorkerSettings;
  readonly engine: Engine;
  readonly results: ResultStore;
  readonly logger: Logger;
  readonly report: (message: WorkerMessage) => void;
}

export class AudioWorker {
  readonly #options: AudioWorkerOptions;
  readonly #id = randomUUID();
  readonly #startedAt = Date.now();
  readonly #held: HeldJobs;
  #served: ServedModels | undefined;
  #presence: PresencePublisher | undefined;
  #workers: ModelWorker[] = [];
  readonly #cancellations = new Map<string, CancellationListener>();
  #closed: Promise<void> | undefined;

  constructor(options: AudioWorkerOptions) {
    this.#options = options;
    this.#held = new HeldJobs(options.report);
  }

  /** Loads the models, then takes jobs.
   *  @throws {WavepoolError} why a model could not be loaded, or REDIS_UNAVAILABLE. */
  async start(): Promise<void> {
    const { settings, engine, results, logger } = this.#options;
    this.#served = await loadServedModels(engine, settings);
    const { runtime, detector, allowance } = this.#served;
    const { ffmpeg, uploadsDir, urls } = settings;
    const places = { uploadsDir, urls };
    const processor = new JobProcessor({ runtime, detector, results, allowance, ffmpeg, places });
    for (const { id: model } of settings.models) {
      const onError = (err: unknown) => logger.warn({ err, model }, 'cancel request not read');
      const options = { address: settings.redis, model, onError };
      this.#cancellations.set(model, await CancellationListener.open(options));
    }
    this.#workers = settings.models.map((model) => this.#openQueue(model, processor));
    await Promise.all(this.#workers.map((worker) => worker.waitUntilReady()));
    for (const worker of this.#workers) {
      worker.run().catch((err: unknown) => logger.error({ err }, 'the queue reader stopped'));
    }
    this.#presence = this.#appear(this.#served);
    await this.#presence.start();
  }

  /** Takes no more jobs, lets the held ones finish within the deadline, hands back the rest. Idempotent. */
  close({ deadlineMs }: { readonly deadlineMs: number }): Promise<void> {
    this.#closed ??= this.#close(deadlineMs);
    return this.#closed;
  }

  async #close(deadlineMs: number): Promise<void> {
    const late = setTimeout(() => {
      this.#held.abortAll(new WavepoolError('SHUTTING_DOWN', 'the drain deadline has passed'));
    }, deadlineMs);
    // `close` waits for the running processors, however they end.
    await Promise.all(this.#workers.map((worker) => worker.close()));
    clearTimeout(late);
    for (const listener of this.#cancellations.values()) listener.close();
    await this.#presence?.close();
    await this.#served?.runtime.close();
  }

  #openQueue(model: WorkerModel, processor: JobProcessor): ModelWorker {
    const { settings, logger } = this.#options;
    const connection = openConnection(settings.redis, {
      role: 'patient',
      name: `worker:${model.id}`,
    });
    const queue = queueNameOf(model.id);
    // BullMQ gives a signal only to three declared parameters; ours comes from `HeldJobs`, so two are enough.
    const worker: ModelWorker = new Worker(
      queue,
      (job: TranscribeJob, token = '') => {
        const partials = new SegmentWriter(connection, queue, String(job.id));
        return this.#process(job, token, processor, partials);
      },
      {
        connection,
        prefix: QUEUE_PREFIX,
        autorun: false,
        concurrency: jobConcurrency(model),
        lockDuration: LOCK_DURATION_MS,
        stalledInterval: STALLED_INTERVAL_MS,
        maxStalledCount: MAX_STALLED_COUNT,
      },
    );
    worker.on('completed', (job) => this.#held.release(queue, String(job.id)));
    worker.on('failed', (job) => {
      if (job) this.#held.release(queue, String(job.id));
    });
    worker.on('lockRenewalFailed', (jobIds) => {
      for (const jobId of jobIds) this.#held.abort(queue, jobId, new LockLostError(jobId));
    });
    worker.on('error', (err) => logger.warn({ err, model: model.id }, 'queue error'));
    worker.on('closed', () => connection.disconnect());
    return worker;
  }

  /** One delivery of a job. What it throws is what BullMQ understands. */
  async #process(
    job: TranscribeJob,
    token: string,
    processor: JobProcessor,
    partials: SegmentWriter,
  ): Promise<JobOutcome> {
    const jobId = String(job.id);
    const queue = job.queueName;
    const logger = this.#options.logger.child({ jobId, queue });
    let cancellation: CancellationWatch | undefined;
    try {
      const data = parseJobData(job.data);
      const held = this.#held.hold(queue, jobId, token, data.clocks);
      const { submittedAt } = data;
      cancellation = await this.#cancellations.get(queue)?.watch({ id: jobId, submittedAt });
      const outcome = await processor.process({
        jobId,
        data,
        signal: cancellation ? AbortSignal.any([held, cancellation.signal]) : held,
        priority: job.priority,
        onProgress: (progress) => this.#tell(job, progress, logger),
        onSegment: data.partials ? (segment) => partials.append(segment) : undefined,
        assertOwned: () => assertOwned(job, token),
      });
      await partials.flushed();
      return outcome;
    } catch (thrown) {
      throw await this.#explain(thrown, job, token, logger);
    } finally {
      cancellation?.stop();
      this.#held.settle(queue, jobId);
    }
  }

  /** Turns what ended a job into what its queue understands. */
  async #explain(thrown: unknown, job: TranscribeJob, token: string, logger: Logger) {
    if (thrown instanceof LockLostError) {
      logger.warn('the job belongs to another worker now; its result here was dropped');
      this.#held.release(job.queueName, String(job.id));
      return new WaitingError(thrown.message);
    }
    const error = toWavepoolError(thrown);
    if (error.code === 'SHUTTING_DOWN') {
      await job.moveToWait(token);
      this.#held.release(job.queueName, String(job.id));
      return new WaitingError(error.message);
    }
    if (error.code === 'INTERNAL') logger.error({ err: thrown }, 'job failed unexpectedly');
    else logger.info({ code: error.code }, error.message);
    return toQueueError(error);
  }

  /** What the world is told, the supervisor is told, too. */
  #appear(served: ServedModels): PresencePublisher {
    const { settings, logger, report } = this.#options;
    return new PresencePublisher({
      address: settings.redis,
      snapshot: () => {
        const status = this.#describe(served);
        report({ type: 'status', status });
        return status;
      },
      onError: (err) => logger.warn({ err }, 'this worker cannot be seen'),
    });
  }

  #describe({ runtime }: ServedModels): WorkerPresence {
    return {
      id: this.#id,
      pid: process.pid,
      host: hostname(),
      startedAt: this.#startedAt,
      version: packageVersion(),
      models: this.#options.settings.models.map(({ id, slots, batch }) => ({ id, slots, batch })),
      runtime: runtime.snapshot(),
      heldJobs: this.#held.size,
      residentBytes: process.memoryUsage.rss(),
      updatedAt: Date.now(),
    };
  }

  /** Progress is for watchers: a job does not fail because it could not be told. */
  #tell(job: TranscribeJob, progress: JobProgress, logger: Logger): void {
    job.updateProgress(progress).catch((err: unknown) => {
      logger.debug({ err }, 'progress could not be told');
    });
  }
}

/** @throws {LockLostError} when the job's lock has run out, so that another worker may have it. */
async function assertOwned(job: TranscribeJob, token: string): Promise<void> {
  const extended = await job.extendLock(token, LOCK_DURATION_MS);
  if (extended !== 1) throw new LockLostError(String(job.id));
}

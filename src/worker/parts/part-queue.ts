/** Takes parts of split jobs from their queue, beside the jobs of the same model. */
import { type Job, WaitingError, Worker } from 'bullmq';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { parseRequestPart } from '../../core/http/problem.ts';
import { PartData, type PartResult } from '../../core/job/part.ts';
import type { Logger } from '../../core/logger.ts';
import { CancellationListener, type CancellationWatch } from '../../queue/jobs/cancellation.ts';
import { toQueueError } from '../../queue/jobs/failures.ts';
import { openConnection, type RedisAddress } from '../../queue/redis/connection.ts';
import { partQueueOf, queuePrefix } from '../../queue/redis/queue-names.ts';
import type { PartProcessor } from './part-processor.ts';

/** Parts are short, and their jobs wait for them. So the parts of a worker that died are soon given to another one. */
const LOCK_DURATION_MS = 30_000;
const STALLED_INTERVAL_MS = 10_000;
/** A part fails when its worker has died more often than this. */
const MAX_STALLED_COUNT = 2;

export interface PartQueueOptions {
  readonly address: RedisAddress;
  readonly model: string;
  readonly processor: PartProcessor;
  /** Parts that are processed at once. */
  readonly concurrency: number;
  readonly logger: Logger;
}

export class PartQueue {
  readonly #options: PartQueueOptions;
  readonly #connection: ReturnType<typeof openConnection>;
  readonly #cancellations: CancellationListener;
  readonly #worker: Worker<unknown, PartResult>;
  readonly #running = new Map<string, AbortController>();
  #closed: Promise<void> | undefined;

  private constructor(options: PartQueueOptions, cancellations: CancellationListener) {
    const { address, model, concurrency, logger } = options;
    this.#options = options;
    this.#cancellations = cancellations;
    this.#connection = openConnection(address, { role: 'patient', name: `parts:${model}` });
    this.#worker = new Worker(partQueueOf(model), (job: Job, token = '') => this.#run(job, token), {
      connection: this.#connection,
      prefix: queuePrefix(this.#connection),
      autorun: false,
      concurrency,
      lockDuration: LOCK_DURATION_MS,
      stalledInterval: STALLED_INTERVAL_MS,
      maxStalledCount: MAX_STALLED_COUNT,
    });
    this.#worker.on('error', (err) => logger.warn({ err, model }, 'part queue error'));
    this.#worker.on('lockRenewalFailed', (ids) => {
      for (const id of ids) this.#running.get(id)?.abort(new WavepoolError('CANCELLED', id));
    });
  }

  /** Takes parts from now on. @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async open(options: PartQueueOptions): Promise<PartQueue> {
    const { address, model, logger } = options;
    const cancellations = await CancellationListener.open({
      address,
      queue: partQueueOf(model),
      onError: (err) => logger.warn({ err, model }, 'cancel request of a part not read'),
    });
    const queue = new PartQueue(options, cancellations);
    await queue.#worker.waitUntilReady();
    queue.#worker.run().catch((err: unknown) => {
      logger.error({ err, model }, 'the part queue reader stopped');
    });
    return queue;
  }

  set concurrency(parts: number) {
    this.#worker.concurrency = parts;
  }

  /** Gives back what runs. */
  abortAll(): void {
    const reason = new WavepoolError('SHUTTING_DOWN', 'the drain deadline has passed');
    for (const running of this.#running.values()) running.abort(reason);
  }

  /** Takes no more parts and waits for those that run. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= (async () => {
      await this.#worker.close();
      this.#cancellations.close();
      this.#connection.disconnect();
    })();
    return this.#closed;
  }

  async #run(job: Job, token: string): Promise<PartResult> {
    const partId = String(job.id);
    const own = new AbortController();
    let cancellation: CancellationWatch | undefined;
    this.#running.set(partId, own);
    try {
      const part = parseRequestPart(PartData, job.data, 'part');
      cancellation = await this.#cancellations.watch({
        id: partId,
        submittedAt: part.submittedAt,
        cancel: (reason) => own.abort(reason),
      });
      return await this.#options.processor.process({
        partId,
        part,
        priority: job.priority,
        alone: job.attemptsStarted > 1,
        signal: own.signal,
      });
    } catch (thrown) {
      // This is the reason, whatever the work itself failed with.
      const error = toWavepoolError(own.signal.aborted ? own.signal.reason : thrown);
      if (error.code !== 'SHUTTING_DOWN') throw toQueueError(error);
      await job.moveToWait(token);
      throw new WaitingError(error.message);
    } finally {
      this.#running.delete(partId);
      cancellation?.stop();
    }
  }
}

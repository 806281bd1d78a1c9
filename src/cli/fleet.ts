/** Redis, queues of models, and the supervised worker processes that serve them: what `run` and `worker` stand on. */
import path from 'node:path';
import type { Config, LogLevel } from '../core/config.ts';
import { createLogger } from '../core/logger.ts';
import { WorkerSettings } from '../core/worker-settings.ts';
import type { InstalledModel } from '../models/model-store.ts';
import { AudioQueue } from '../queue/audio-queue.ts';
import type { RedisAddress } from '../queue/connection.ts';
import type { WorkerCrash } from '../worker/supervisor.ts';
import { Supervisor } from '../worker/supervisor.ts';
import type { HeldOfQueue } from '../worker/worker-process.ts';
import type { Capacity, Residency } from './options.ts';
import { DEFAULT_MODEL } from './options.ts';
import { RedisAccess } from './redis-access.ts';

export interface FleetOptions {
  readonly config: Config;
  /** Of each model. */
  readonly capacity: Capacity;
  readonly residency: Residency;
  /** At least one. */
  readonly models: readonly InstalledModel[];
  /** Finds the speech. */
  readonly detector: InstalledModel;
  readonly logLevel: LogLevel;
  /** Of an input that is fetched from a URL. @defaultValue that of `UrlLimits` */
  readonly maxUrlBytes?: number;
  /** Ends the wait for a private Redis that does not come up. */
  readonly signal?: AbortSignal;
  readonly onCrash?: (crash: WorkerCrash) => void;
}

/** Where the transcripts of a data directory are. */
export function resultsFolder(config: Config): string {
  return path.join(config.dataDir, 'results');
}

/** Where the server puts what is uploaded. */
export function uploadsFolder(config: Config): string {
  return path.join(config.dataDir, 'uploads');
}

export class Fleet implements AsyncDisposable {
  /** Of the first model. */
  readonly queue: AudioQueue;
  readonly address: RedisAddress;
  readonly #supervisor: Supervisor;
  readonly #redis: RedisAccess;
  #closed: Promise<void> | undefined;

  private constructor(queue: AudioQueue, supervisor: Supervisor, redis: RedisAccess) {
    this.queue = queue;
    this.address = redis.address;
    this.#supervisor = supervisor;
    this.#redis = redis;
  }

  /**
   * Resolves when every worker takes jobs.
   * @throws {WavepoolError} REDIS_MISSING, REDIS_UNAVAILABLE, REDIS_UNSUITABLE, or why a worker could not start
   */
  static async start(options: FleetOptions): Promise<Fleet> {
    const redis = await RedisAccess.open(options.config, options.signal);
    try {
      const { address } = redis;
      const model = options.models[0]?.entry.id ?? DEFAULT_MODEL;
      const queue = await AudioQueue.open({ address, model, whenDisconnected: 'wait' });
      const fleet = new Fleet(queue, superviseWorkers(options, address, queue), redis);
      await fleet.#startWorkers();
      return fleet;
    } catch (error) {
      await redis[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Workers take no more jobs; resolves when those they hold have ended or the time is up. */
  drain(deadlineMs: number): Promise<void> {
    return this.#supervisor.close({ deadlineMs });
  }

  /** Ends everything now; jobs that run go back to the queue. */
  async kill(): Promise<void> {
    await this.#supervisor.kill();
    await this.close();
  }

  /** Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #startWorkers(): Promise<void> {
    try {
      await this.#supervisor.start();
    } catch (error) {
      await this.queue.close();
      throw error;
    }
  }

  async #close(): Promise<void> {
    await this.#supervisor.close({ deadlineMs: 0 });
    await this.queue.close();
    await this.#redis[Symbol.asyncDispose]();
  }
}

function superviseWorkers(
  options: FleetOptions,
  address: RedisAddress,
  queue: AudioQueue,
): Supervisor {
  const { config, capacity, residency, models, detector, logLevel, onCrash } = options;
  const { slots, unvalidatedSlots, batch, threads, workers } = capacity;
  const { busyTimeoutMs, ...memory } = residency;
  const settings = WorkerSettings.parse({
    redis: address,
    privateRedisOf: config.redisUrl === undefined ? config.dataDir : undefined,
    resultsDir: resultsFolder(config),
    uploadsDir: uploadsFolder(config),
    urls: { maxBytes: options.maxUrlBytes },
    models: models.map(({ entry: { id }, path: file }) => {
      return { id, path: file, slots, batch, threads, busyTimeoutMs };
    }),
    modelsDir: config.modelsDir,
    unvalidatedSlots,
    maxAudioSeconds: config.maxAudioSeconds,
    ...memory,
    detector: { id: detector.entry.id, path: detector.path },
    addonPath: config.addonPath,
    logLevel,
  });
  const supervisor = new Supervisor({
    settings,
    workers,
    logger: createLogger(logLevel, 'supervisor'),
    handBack: async (held) => {
      for (const [name, ofQueue] of held) await handBackTo(name, ofQueue, address, queue);
    },
  });
  if (onCrash !== undefined) supervisor.on('crash', onCrash);
  return supervisor;
}

/** Workers serve models that were loaded later, too: their queues are opened when they are needed. */
async function handBackTo(
  model: string,
  { jobs, workerIds }: HeldOfQueue,
  address: RedisAddress,
  first: AudioQueue,
): Promise<void> {
  if (model === first.name) {
    await first.handBack(jobs, workerIds);
    return;
  }
  await using queue = await AudioQueue.open({ address, model, whenDisconnected: 'wait' });
  await queue.handBack(jobs, workerIds);
}

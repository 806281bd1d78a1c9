/** Redis, the queue of a model, and the supervised worker processes that serve it: what `run`, `worker` and `serve` start. */
import type { Config, LogLevel } from '../../core/config.ts';
import { createLogger } from '../../core/logger.ts';
import type { Tracing } from '../../core/tracing.ts';
import { WorkerSettings } from '../../core/worker/worker-settings.ts';
import type { InstalledModel } from '../../models/installed/installed-models.ts';
import type { AudioQueue } from '../../queue/audio-queue.ts';
import type { RedisAddress } from '../../queue/redis/connection.ts';
import { Supervisor, type WorkerCrash } from '../../worker/supervisor/supervisor.ts';
import type { HeldOfQueue } from '../../worker/supervisor/worker-process.ts';
import type { RedisAccess } from '../access/redis-access.ts';
import type { Capacity } from '../capacity/standard-capacity.ts';
import { DEFAULT_MODEL, resultsFolder, uploadsFolder } from '../options/options.ts';
import type { Residency } from './residency-options.ts';

export interface FleetOptions {
  readonly config: Config;
  /** One for each model, in their order; the first one says how many workers there are. */
  readonly capacities: readonly Capacity[];
  readonly residency: Residency;
  /** At least one. */
  readonly models: readonly InstalledModel[];
  /** Finds the speech. */
  readonly detector: InstalledModel;
  readonly logLevel: LogLevel;
  /** Which workers `start` waits for. @defaultValue 'every' */
  readonly startsWith?: 'every' | 'first';
  /** Largest input that is fetched from a URL. @defaultValue that of `UrlLimits` */
  readonly maxUrlBytes?: number;
  /** Ends the wait for a private Redis that does not come up. */
  readonly signal?: AbortSignal;
  /** Traces what `queue` does. @defaultValue none */
  readonly tracing?: Tracing;
  readonly onCrash?: (crash: WorkerCrash) => void;
}

/** The level of worker processes whose everyday messages nobody wants to read. */
export function quietLogLevel(level: LogLevel): LogLevel {
  return level === 'info' ? 'error' : level;
}

export class Fleet implements AsyncDisposable {
  /** The queue of the first model. */
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
   * Resolves when its workers take jobs.
   * @throws {WavepoolError} REDIS_MISSING, REDIS_UNAVAILABLE, REDIS_UNSUITABLE, or why a worker could not start
   */
  static async start(options: FleetOptions): Promise<Fleet> {
    let open: (place: Promise<Place>) => void = () => undefined;
    const place = new Promise<Place>((resolve) => {
      open = resolve;
    });
    const supervisor = superviseWorkers(options, place);
    // Processes take as long to start as all the rest does: they come first.
    const started = supervisor.start(options.startsWith);
    open(openPlace(options));
    // Its failure is told below, when the place is open or known to be none.
    started.catch(() => undefined);
    const { queue, redis } = await place.catch(async (error: unknown) => {
      await supervisor.close({ deadlineMs: 0 });
      throw error;
    });
    try {
      await started;
    } catch (error) {
      await queue.close();
      await redis[Symbol.asyncDispose]();
      throw error;
    }
    return new Fleet(queue, supervisor, redis);
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

  async #close(): Promise<void> {
    await this.#supervisor.close({ deadlineMs: 0 });
    await this.queue.close();
    await this.#redis[Symbol.asyncDispose]();
  }
}

/** What producers and workers of a fleet share. */
interface Place {
  readonly redis: RedisAccess;
  readonly queue: AudioQueue;
}

/** The clients of Redis are loaded here, beside the worker processes that have been started before. */
async function openPlace(options: FleetOptions): Promise<Place> {
  const { config, models, signal, tracing, logLevel } = options;
  const { RedisAccess } = await import('../access/redis-access.ts');
  const redis = await RedisAccess.open(config, signal, createLogger(logLevel, 'redis'));
  try {
    const { address } = redis;
    const model = models[0]?.entry.id ?? DEFAULT_MODEL;
    const { AudioQueue } = await import('../../queue/audio-queue.ts');
    const queue = await AudioQueue.open({ address, model, tracing, whenDisconnected: 'wait' });
    return { redis, queue };
  } catch (error) {
    await redis[Symbol.asyncDispose]();
    throw error;
  }
}

function settingsOf(options: FleetOptions, address: RedisAddress): WorkerSettings {
  const { config, capacities, residency, models, detector, logLevel } = options;
  const { unvalidatedSlots } = firstOf(capacities);
  const { busyTimeoutMs, ...memory } = residency;
  return WorkerSettings.parse({
    redis: address,
    privateRedisOf: config.redisUrl === undefined ? config.dataDir : undefined,
    resultsDir: resultsFolder(config),
    uploadsDir: uploadsFolder(config),
    urls: { maxBytes: options.maxUrlBytes },
    s3: config.s3,
    models: models.map(({ entry: { id }, path: file }, index) => {
      const { slots, batch, threads } = capacities[index] ?? firstOf(capacities);
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
}

function firstOf(capacities: readonly Capacity[]): Capacity {
  const [first] = capacities;
  if (first === undefined) throw new RangeError('a fleet serves at least one model');
  return first;
}

function superviseWorkers(options: FleetOptions, place: Promise<Place>): Supervisor {
  const { capacities, logLevel, onCrash } = options;
  const supervisor = new Supervisor({
    settings: place.then(({ redis }) => settingsOf(options, redis.address)),
    workers: firstOf(capacities).workers,
    logger: createLogger(logLevel, 'supervisor'),
    handBack: async (held) => {
      const { queue, redis } = await place;
      const { address } = redis;
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
  const { AudioQueue } = await import('../../queue/audio-queue.ts');
  await using queue = await AudioQueue.open({ address, model, whenDisconnected: 'wait' });
  await queue.handBack(jobs, workerIds);
}

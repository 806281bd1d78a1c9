/** The queues of all models, opened when they are first needed. */
import type { Redis } from 'ioredis';
import { WavepoolError } from '../core/errors.ts';
import type { JobId, ModelId } from '../core/job/job.ts';
import type { Tracing } from '../core/tracing.ts';
import { AudioQueue } from './audio-queue.ts';
import { readPresence } from './fleet/presence.ts';
import type { JobView } from './jobs/job-view.ts';
import { readKnownModels } from './jobs/known-models.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
  toRedisError,
} from './redis/connection.ts';
import { bullKey, queueNameOf } from './redis/queue-names.ts';

export interface QueueRegistryOptions {
  readonly address: RedisAddress;
  /** Models that may have jobs before a worker or a queue of theirs was ever seen. */
  readonly models: readonly ModelId[];
  /** Told of each queue before anybody uses it. */
  readonly onOpen?: ((queue: AudioQueue) => void) | undefined;
  /** @defaultValue none */
  readonly tracing?: Tracing | undefined;
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: (() => number) | undefined;
}

export interface FoundJob {
  readonly queue: AudioQueue;
  readonly view: JobView;
}

export class QueueRegistry {
  readonly address: RedisAddress;
  /** For single commands; they fail while Redis is away. */
  readonly connection: Redis;
  readonly #options: QueueRegistryOptions;
  readonly #queues = new Map<ModelId, Promise<AudioQueue>>();
  #closing: Promise<void> | undefined;

  private constructor(options: QueueRegistryOptions, connection: Redis) {
    this.#options = options;
    this.address = options.address;
    this.connection = connection;
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async open(options: QueueRegistryOptions): Promise<QueueRegistry> {
    const connection = openConnection(options.address, { role: 'fail-fast', name: 'registry' });
    await connect(connection, options.address);
    return new QueueRegistry(options, connection);
  }

  /**
   * Models that are configured, served or have had jobs, in the order of their names.
   * @throws {WavepoolError} REDIS_UNAVAILABLE
   */
  async models(): Promise<ModelId[]> {
    const [known, workers] = await Promise.all([
      readKnownModels(this.connection),
      readPresence(this.connection),
    ]);
    const served = workers.flatMap(({ models }) => models.map(({ id }) => id));
    return [...new Set([...this.#options.models, ...known, ...served])].toSorted();
  }

  /**
   * The queue of a known model.
   * @throws {WavepoolError} MODEL_UNKNOWN, REDIS_UNAVAILABLE, REDIS_UNSUITABLE
   */
  async queueOf(model: ModelId): Promise<AudioQueue> {
    const isKnown =
      this.#options.models.includes(model) ||
      this.#queues.has(model) ||
      (await this.models()).includes(model);
    if (!isKnown) throw new WavepoolError('MODEL_UNKNOWN', model);
    return this.#open(model);
  }

  /** Opens the queue of every known model, so that all their events are seen from now on. */
  async openAll(): Promise<void> {
    await Promise.all((await this.models()).map((model) => this.#open(model)));
  }

  /** Ids are random or derived from what they stand for, so that at most one queue knows a job. */
  async find(id: JobId): Promise<FoundJob | undefined> {
    const models = await this.models();
    const pipeline = this.connection.pipeline();
    for (const model of models) pipeline.exists(bullKey(this.connection, queueNameOf(model), id));
    const replies = await pipeline.exec().catch((error: unknown) => {
      throw toRedisError(error);
    });
    for (const [index, model] of models.entries()) {
      const [error, exists] = replies?.[index] ?? [];
      if (error) throw toRedisError(error);
      if (exists !== 1) continue;
      const queue = await this.#open(model);
      const view = await queue.get(id);
      if (view !== undefined) return { queue, view };
    }
    return undefined;
  }

  /** @throws {WavepoolError} JOB_NOT_FOUND, REDIS_UNAVAILABLE */
  async get(id: JobId): Promise<FoundJob> {
    const found = await this.find(id);
    if (found === undefined) throw new WavepoolError('JOB_NOT_FOUND', id);
    return found;
  }

  /** Idempotent. */
  close(): Promise<void> {
    this.#closing ??= (async () => {
      const opened = await Promise.allSettled(this.#queues.values());
      for (const queue of opened) if (queue.status === 'fulfilled') await queue.value.close();
      closeConnection(this.connection);
    })();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #open(model: ModelId): Promise<AudioQueue> {
    if (this.#closing) throw new WavepoolError('SHUTTING_DOWN', 'the queues were closed');
    const known = this.#queues.get(model);
    if (known !== undefined) return known;
    const { address, now, onOpen, tracing } = this.#options;
    const opening = AudioQueue.open({ address, model, now, tracing }).then((queue) => {
      onOpen?.(queue);
      return queue;
    });
    this.#queues.set(model, opening);
    // The next request tries again.
    opening.catch(() => this.#queues.delete(model));
    return opening;
  }
}

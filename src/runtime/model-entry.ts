import { formatFailure, toWavepoolError, WavepoolError } from '../core/errors.ts';
import type { ModelState, ModelStatus } from '../core/status.ts';
import type { Segment, SubmitOptions } from './batch-item.ts';
import { Batcher } from './batcher.ts';
import { effectiveBusyTimeoutMs } from './busy.ts';
import type { Clock } from './clock.ts';
import type { Engine, LoadedModel, RunMode, SessionPool, TaskResult } from './engine.ts';
import { ModelSlots } from './model-slots.ts';

export interface ModelConfiguration {
  /** The converted weights. */
  readonly path: string;
  readonly mode: RunMode;
  /** Admitted count (`admittedSlots`), 1…16. */
  readonly slots: number;
  /** Compute threads per session. */
  readonly threads: number;
  /** Most items in one native batch. */
  readonly maxBatch: number;
  readonly maxAudioSeconds: number;
  /** Longest wait of a segment for company. */
  readonly maxWaitMs: number;
  /** Ceiling of the busy timeout; 0 = unbounded. */
  readonly busyTimeoutMs: number;
}

/** What is published by a load, all of it or nothing. */
interface Publication {
  readonly model: LoadedModel;
  readonly pool: SessionPool;
}

export interface ManagementOptions {
  readonly signal?: AbortSignal | undefined;
}

/**
 * One model of this process, under one id for as long as the process lives.
 *
 * `unloaded` → `loading` → `ready` → `unloading` → `unloaded`; a load that fails leaves `failed`, which can be loaded
 * again. Only a manager that holds the whole model (`ModelSlots`) changes the state.
 */
export class ModelEntry {
  readonly id: string;
  readonly configuration: ModelConfiguration;
  readonly slots: ModelSlots;
  readonly batcher: Batcher;
  readonly #engine: Engine;
  #state: ModelState = 'unloaded';
  #failure: WavepoolError | undefined;
  #published: Publication | undefined;
  #generation = 0;
  #closed = false;

  /** @throws {WavepoolError} SLOTS_UNSUPPORTED, INVALID_REQUEST */
  constructor(id: string, configuration: ModelConfiguration, engine: Engine, clock: Clock) {
    effectiveBusyTimeoutMs(configuration.busyTimeoutMs);
    this.id = id;
    this.configuration = configuration;
    this.#engine = engine;
    this.slots = new ModelSlots({ clock });
    this.slots.configure(configuration.slots);
    this.batcher = new Batcher({
      label: id,
      clock,
      slots: this.slots,
      pool: () => this.#publication().pool,
      limits: this.#limits(configuration.maxBatch),
    });
  }

  get state(): ModelState {
    return this.#state;
  }

  /** Raised by each publication. */
  get generation(): number {
    return this.#generation;
  }

  /** @throws {WavepoolError} MODEL_LOAD_FAILED while nothing is published. */
  get model(): LoadedModel {
    return this.#publication().model;
  }

  /** Runs a segment in a batch; the request's busy timeout is bounded by the model's. See `Batcher.submit`. */
  async submit(segment: Segment, options: SubmitOptions = {}): Promise<TaskResult> {
    const ceilingMs = this.configuration.busyTimeoutMs;
    const busyTimeoutMs = effectiveBusyTimeoutMs(ceilingMs, options.busyTimeoutMs);
    return this.batcher.submit(segment, { ...options, busyTimeoutMs });
  }

  /**
   * Loads the model once earlier work has ended; does nothing when it is loaded already.
   * @throws {WavepoolError} BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED, SHUTTING_DOWN, or why the load failed.
   */
  async load(options: ManagementOptions = {}): Promise<void> {
    using _lease = await this.#manage('load', this.configuration.busyTimeoutMs, options.signal);
    if (this.#closed) throw new WavepoolError('SHUTTING_DOWN', `${this.id} is closed`);
    if (this.#published) return;
    this.#state = 'loading';
    this.#failure = undefined;
    try {
      this.#published = await this.#loadPrivately();
      this.#generation += 1;
      this.#state = 'ready';
      this.batcher.configure(this.#limits(this.#published.pool.maxBatch));
    } catch (thrown) {
      this.#failure = toWavepoolError(thrown);
      this.#state = 'failed';
      throw this.#failure;
    }
  }

  /**
   * Unloads the model once earlier work has ended. Idempotent.
   * @throws {WavepoolError} BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED
   */
  async unload(options: ManagementOptions = {}): Promise<void> {
    using _lease = await this.#manage('unload', this.configuration.busyTimeoutMs, options.signal);
    await this.#retire();
  }

  /** Refuses new and queued work, waits for what runs, frees the model for good. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.batcher.close();
    using _lease = await this.#manage('close', 0, undefined);
    await this.#retire();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  snapshot(): ModelStatus {
    const slots = this.slots.state();
    const batches = this.batcher.stats();
    const loaded = this.#published;
    const failure = this.#failure;
    return {
      id: this.id,
      path: this.configuration.path,
      state: this.#state,
      generation: this.#generation,
      failure: failure ? { code: failure.code, message: failure.message } : null,
      family: loaded?.model.info.family ?? null,
      task: loaded?.model.info.task ?? null,
      mode: this.configuration.mode,
      loaded: loaded !== undefined,
      slots: slots.slots,
      activeSlots: slots.active,
      exclusive: slots.exclusive,
      queuedRequests:
        batches.queuedItems + Math.max(0, slots.waitingRequests - this.batcher.leaseRequests),
      waitingManagers: slots.waitingManagers,
      maxParallelSlots: loaded?.pool.capacity ?? null,
      weightBytes: loaded?.model.info.weightBytes ?? null,
      sessionBytes: loaded ? [...loaded.pool.sessionBytes] : null,
      batches,
    };
  }

  #manage(operation: string, timeoutMs: number, signal: AbortSignal | undefined) {
    return this.slots.acquire({ timeoutMs, label: `${operation} of ${this.id}`, signal });
  }

  /** Sessions and weights that nobody sees yet; whatever fails, nothing of them is left behind. */
  async #loadPrivately(): Promise<Publication> {
    const { path, slots, mode, threads, maxBatch } = this.configuration;
    const model = await this.#engine.loadModel(path);
    try {
      const pool = await model.createPool({ slots, mode, threads, maxBatch });
      if (pool.size === slots) return { model, pool };
      await pool.close();
      throw new WavepoolError('INTERNAL', `asked for ${slots} sessions, got ${pool.size}`);
    } catch (thrown) {
      await model.close();
      throw thrown;
    }
  }

  /** Residency ends first, then the sessions, then the weights. */
  async #retire(): Promise<void> {
    const retired = this.#published;
    this.#published = undefined;
    this.#failure = undefined;
    if (!retired) {
      this.#state = 'unloaded';
      return;
    }
    this.#state = 'unloading';
    try {
      await retired.pool.close();
      await retired.model.close();
    } finally {
      this.#state = 'unloaded';
    }
  }

  #limits(maxItems: number) {
    const { maxBatch, maxAudioSeconds, maxWaitMs } = this.configuration;
    return { maxItems: Math.max(1, Math.min(maxItems, maxBatch)), maxAudioSeconds, maxWaitMs };
  }

  #publication(): Publication {
    if (this.#published) return this.#published;
    const why = this.#failure ? formatFailure(this.#failure) : `the model is ${this.#state}`;
    throw new WavepoolError('MODEL_LOAD_FAILED', `${this.id}: ${why}`);
  }
}

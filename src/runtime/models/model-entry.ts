import { setMaxListeners } from 'node:events';
import { formatFailure, WavepoolError } from '../../core/errors.ts';
import type { SwapStrategy } from '../../core/worker/control.ts';
import type { ModelState, ModelStatus } from '../../core/worker/status.ts';
import type { Segment, SubmitOptions } from '../batches/batch-item.ts';
import { Batcher, type BatchWatch } from '../batches/batcher.ts';
import type { LoadedModel, TaskResult } from '../engine.ts';
import type { ManagementLease, Reservation, RunLease } from '../slots/leases.ts';
import { ModelSlots } from '../slots/model-slots.ts';
import { effectiveBusyTimeoutMs } from '../waiting.ts';
import { IdleClock } from './idle-clock.ts';
import type { Resident } from './load-guard.ts';
import { assertConfiguration, type ModelConfiguration, samePool } from './model-configuration.ts';
import { ModelResidency, type ResidencyServices } from './model-residency.ts';
import { type PreparedModel, type Publication, prepared, residentBytes } from './publication.ts';
import { StreamLease } from './stream-lease.ts';

/** What the entries of a runtime share. */
export interface EntryServices extends ResidencyServices {
  /** Ceiling of the busy timeout for configurations that have none; 0 = unbounded. */
  readonly busyTimeoutMs: number;
  readonly idleUnloadMs: number;
  /** Called in the turn of every change of the status, except of what changes with every batch. */
  readonly onChange: (entry: ModelEntry) => void;
  readonly watchBatches?: BatchWatch | undefined;
}

export interface ManagementOptions {
  /** Ends the wait for the model at once; what has begun is finished. */
  readonly signal?: AbortSignal | undefined;
}

export interface ReconfigureOptions extends ManagementOptions {
  /** @defaultValue 'retire-first' */
  readonly strategy?: SwapStrategy;
}

export interface AdmissionOptions {
  /** Ends the wait, for a slot or for the model, at once. */
  readonly signal?: AbortSignal | undefined;
  /** Bound on the wait for a slot; never longer than the model's own. @defaultValue the model's */
  readonly busyTimeoutMs?: number | undefined;
}

export interface CloseOptions {
  /** How long accepted work may go on before what still waits ends with SHUTTING_DOWN. @defaultValue 0 */
  readonly drainMs?: number | undefined;
}

/**
 * One model of this process, under one id for as long as the process lives.
 *
 * Requests take their slot first and then wait for the model, which the first of them loads. Managers (load,
 * reconfigure, unload) hold the whole model (`ModelSlots`); what is loaded is `ModelResidency`'s.
 */
export class ModelEntry implements Resident {
  readonly id: string;
  readonly slots: ModelSlots;
  readonly batcher: Batcher;
  readonly #services: EntryServices;
  readonly #residency: ModelResidency;
  readonly #idleClock: IdleClock;
  readonly #stop = new AbortController();
  #publishedSeen: Publication | undefined;
  #closing: Promise<void> | undefined;

  /** @throws {WavepoolError} SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED, INVALID_REQUEST */
  constructor(id: string, configuration: ModelConfiguration, services: EntryServices) {
    assertConfiguration(configuration);
    const { clock, idleUnloadMs } = services;
    // Everybody who waits for a load listens to it. Node takes more than ten listeners for a leak.
    setMaxListeners(0, this.#stop.signal);
    this.id = id;
    this.#services = services;
    this.slots = new ModelSlots({ clock, onManagersChange: () => services.onChange(this) });
    this.slots.configure(configuration.slots);
    this.#idleClock = new IdleClock({
      clock,
      limitMs: idleUnloadMs,
      onIdle: () => void this.#retireIfIdle().catch(services.onBackgroundError),
    });
    this.#residency = new ModelResidency(services, {
      id,
      configuration,
      stop: this.#stop.signal,
      onChange: () => this.#residencyChanged(),
    });
    this.batcher = new Batcher({
      label: id,
      clock,
      slots: this.slots,
      pool: async () => (await this.#initialize()).pool,
      limits: this.#limits(),
      watch: services.watchBatches,
      onBatchEnd: () => this.#idleClock.touch(),
    });
  }

  get configuration(): ModelConfiguration {
    return this.#residency.configuration;
  }
  get state(): ModelState {
    return this.#residency.state;
  }
  /** Raised by each publication. */
  get generation(): number {
    return this.#residency.generation;
  }
  get resident(): boolean {
    return this.#residency.published !== undefined;
  }
  get lastUsedMs(): number {
    return this.#idleClock.lastUsedMs;
  }
  get residentBytes(): number {
    const { published } = this.#residency;
    return published ? residentBytes(published) : 0;
  }

  /** @throws {WavepoolError} MODEL_LOAD_FAILED while nothing is published; `prepare` waits for that instead. */
  get model(): LoadedModel {
    const { published, failure, state } = this.#residency;
    if (published) return published.model;
    const why = failure ? formatFailure(failure) : `the model is ${state}`;
    throw new WavepoolError('MODEL_LOAD_FAILED', `${this.id}: ${why}`);
  }

  /**
   * Runs a segment in a batch, loading the model first where it is not; the request's busy timeout is bounded by the
   * model's and covers the wait for a slot only. See `Batcher.submit`.
   * @throws {WavepoolError} QUEUE_FULL, MODEL_LOAD_TIMEOUT, or why the load failed, besides.
   */
  async submit(segment: Segment, options: SubmitOptions = {}): Promise<TaskResult> {
    this.#assertAdmits(options.signal);
    return this.batcher.submit(segment, { ...options, busyTimeoutMs: this.#timeout(options) });
  }

  /**
   * What a request needs before its first batch. A model that is not loaded is loaded for it, under a slot; one that is
   * loaded, with no manager at work or waiting, answers at once.
   * @throws {WavepoolError} as `acquireStream`
   */
  async prepare(options: AdmissionOptions = {}): Promise<PreparedModel> {
    const { published } = this.#residency;
    const { exclusive, waitingManagers } = this.slots.state();
    if (published && !exclusive && waitingManagers === 0) return prepared(published.model);
    // The lease keeps it published.
    using _stream = await this.acquireStream(options);
    return prepared(this.model);
  }

  /**
   * Leases one slot of the loaded model for as long as the caller keeps it: first the slot, then the model.
   * @throws {WavepoolError} BUSY_TIMEOUT, BUSY_OVERDUE, QUEUE_FULL, CANCELLED, SHUTTING_DOWN, MODEL_LOAD_TIMEOUT, or why
   * the load failed.
   */
  async acquireStream(options: AdmissionOptions = {}): Promise<StreamLease> {
    this.#assertAdmits(options.signal);
    const lease = await this.#acquireRun(options);
    try {
      return new StreamLease({
        lease,
        publication: await this.#initialize(options.signal),
        generation: this.generation,
        ending: this.#stop.signal,
        onRelease: () => this.#idleClock.touch(),
      });
    } catch (thrown) {
      lease.release();
      throw thrown;
    }
  }

  /**
   * Loads the model once earlier work has ended; does nothing when it is loaded already.
   * @throws {WavepoolError} BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED, SHUTTING_DOWN, or why the load failed.
   */
  async load(options: ManagementOptions = {}): Promise<void> {
    using _lease = await this.#manage('load', options);
    await this.#initialize();
  }

  /**
   * Replaces the configuration once earlier work has ended on the old one.
   * @returns whether a pool was replaced
   * @throws see `Runtime.reconfigure`
   */
  async reconfigure(
    change: (current: ModelConfiguration) => ModelConfiguration,
    options: ReconfigureOptions = {},
  ): Promise<boolean> {
    using _lease = await this.#manage('reconfigure', options);
    const next = change(this.configuration);
    assertConfiguration(next);
    if (samePool(this.configuration, next)) {
      this.#residency.adjust(next);
      await this.#initialize();
      return false;
    }
    const replaced = this.resident;
    await this.#residency.replace(next, options.strategy);
    return replaced;
  }

  /**
   * Unloads the model once earlier work has ended. Idempotent.
   * @throws {WavepoolError} BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED, SHUTTING_DOWN
   */
  async unload(options: ManagementOptions = {}): Promise<void> {
    using _lease = await this.#manage('unload', options);
    await this.retire();
  }

  /** Takes a manager's place whose wait has no bound, for operations on several models. */
  reserve(operation: string, { signal }: ManagementOptions = {}): Reservation {
    this.#assertOpen();
    return this.slots.queueManagement({ timeoutMs: 0, label: this.#label(operation), signal });
  }

  tryAcquire(): ManagementLease | undefined {
    // Asking the slots ends the wait of segments for others in their batch, so it is done only when it can succeed.
    if (!this.batcher.idle || !this.slots.idle) return undefined;
    return this.slots.tryAcquire();
  }

  /** Frees what is loaded. The caller holds the whole model. */
  retire(): Promise<void> {
    return this.#residency.retire();
  }

  /**
   * Refuses new work, lets accepted work go on for `drainMs`, ends what still waits then with SHUTTING_DOWN, waits for
   * what runs, and frees the model for good. Idempotent: the first call's options count.
   */
  close(options: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(options.drainMs ?? 0);
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The status, taken in one turn. It loads nothing and reserves nothing. */
  snapshot(): ModelStatus {
    const slots = this.slots.state();
    const { published, failure, state, generation, leaving } = this.#residency;
    return {
      id: this.id,
      path: this.configuration.path,
      state,
      generation,
      failure: failure ? { code: failure.code, message: failure.message } : null,
      family: published?.model.info.family ?? null,
      task: published?.model.info.task ?? null,
      languages: published ? [...published.model.info.languages] : null,
      optionNames: published ? [...published.model.info.optionNames] : null,
      mode: this.configuration.mode,
      loaded: published !== undefined,
      leaving,
      idleMs: published ? this.#idleClock.idleMs : null,
      slots: slots.slots,
      activeSlots: slots.active,
      exclusive: slots.exclusive,
      queuedRequests: this.#queuedRequests(),
      waitingManagers: slots.waitingManagers,
      maxParallelSlots: published?.pool.capacity ?? null,
      weightBytes: published?.model.info.weightBytes ?? null,
      sessionBytes: published ? [...published.pool.sessionBytes] : null,
      batches: this.batcher.stats(),
    };
  }

  /** Requests that wait for a slot: segments in the batcher, and callers that wait for a lease themselves. */
  #queuedRequests(): number {
    const { waitingRequests } = this.slots.state();
    const callers = Math.max(0, waitingRequests - this.batcher.leaseRequests);
    return this.batcher.stats().queuedItems + callers;
  }

  #initialize(signal?: AbortSignal): Promise<Publication> {
    this.#idleClock.touch();
    return this.#residency.initialize(signal);
  }

  #timeout({ busyTimeoutMs }: AdmissionOptions): number {
    const ceilingMs = this.configuration.busyTimeoutMs ?? this.#services.busyTimeoutMs;
    return effectiveBusyTimeoutMs(ceilingMs, busyTimeoutMs);
  }

  #acquireRun(options: AdmissionOptions): Promise<RunLease> {
    const timeoutMs = this.#timeout(options);
    return this.slots.acquireRun({ ...options, timeoutMs, label: this.#label('a request') });
  }

  /** The signal ends only the wait: a manager finishes what it has begun. */
  async #manage(operation: string, { signal }: ManagementOptions): Promise<ManagementLease> {
    this.#assertOpen();
    const label = this.#label(operation);
    const lease = await this.slots.acquire({ timeoutMs: this.#timeout({}), label, signal });
    this.#idleClock.touch();
    return lease;
  }

  #label(operation: string): string {
    return `${operation} of ${this.id}`;
  }

  #assertOpen(): void {
    if (this.#closing) throw new WavepoolError('SHUTTING_DOWN', `${this.id} is closed`);
  }

  #assertAdmits(signal: AbortSignal | undefined): void {
    this.#assertOpen();
    const most = this.configuration.maxQueued ?? 0;
    if (most === 0 || signal?.aborted || this.#queuedRequests() < most) return;
    throw new WavepoolError('QUEUE_FULL', `${most} requests of ${this.id} wait already`);
  }

  /** Keeps slots, batches and the idle clock in step with what is published. */
  #residencyChanged(): void {
    const { published, configuration } = this.#residency;
    if (this.slots.state().slots !== configuration.slots) this.slots.configure(configuration.slots);
    if (published !== this.#publishedSeen) {
      this.#publishedSeen = published;
      if (published) this.#idleClock.start();
      else this.#idleClock.stop();
    }
    this.batcher.configure(this.#limits());
    this.#services.onChange(this);
  }

  #limits() {
    const { maxBatch, maxAudioSeconds, maxWaitMs } = this.configuration;
    const supported = this.#residency.published?.pool.maxBatch ?? maxBatch;
    return { maxItems: Math.max(1, Math.min(supported, maxBatch)), maxAudioSeconds, maxWaitMs };
  }

  async #retireIfIdle(): Promise<void> {
    using lease = this.tryAcquire();
    if (lease) await this.retire();
  }

  async #close(drainMs: number): Promise<void> {
    using _lease = (await this.#drain(drainMs)) ?? (await this.#dismiss());
    await this.retire();
    await this.#residency.released();
  }

  /** Takes the whole model once all accepted work has ended; undefined when the time is up before. */
  async #drain(drainMs: number): Promise<ManagementLease | undefined> {
    if (drainMs <= 0) return undefined;
    const late = new AbortController();
    const timer = this.#services.clock.setTimer(drainMs, () => late.abort());
    const label = this.#label('close');
    try {
      return await this.slots.acquire({ timeoutMs: 0, label, signal: late.signal });
    } catch {
      // Only the deadline above ends this wait.
      return undefined;
    } finally {
      timer.cancel();
    }
  }

  async #dismiss(): Promise<ManagementLease> {
    const error = new WavepoolError('SHUTTING_DOWN', `${this.id} accepts no more work`);
    this.#stop.abort(error);
    this.batcher.dismiss();
    this.slots.dismiss(error);
    return this.slots.acquire({ timeoutMs: 0, label: this.#label('close') });
  }
}

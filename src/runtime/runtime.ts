import { WavepoolError } from '../core/errors.ts';
import type { ModelStatus, RuntimeStatus } from '../core/worker/status.ts';
import type { BatchWatch } from './batches/batcher.ts';
import type { Clock } from './clock.ts';
import type { Engine } from './engine.ts';
import { LoadGuard } from './models/load-guard.ts';
import type { ModelConfiguration } from './models/model-configuration.ts';
import {
  type CloseOptions,
  type EntryServices,
  type ManagementOptions,
  ModelEntry,
  type ReconfigureOptions,
} from './models/model-entry.ts';
import { assertSlotsAdmitted, FAMILY_DECIDES, type ModelPolicy } from './models/slot-policy.ts';
import type { Reservation } from './slots/leases.ts';

export interface RuntimeOptions {
  /** Most models in memory, beyond which the least recently used idle one goes; 0 = unbounded. @defaultValue 0 */
  readonly maxLoadedModels?: number | undefined;
  /** A model that nobody has used for this long is unloaded; 0 = never. @defaultValue 0 */
  readonly idleUnloadMs?: number | undefined;
  /** Memory that a load must leave free; 0 = memory is not checked. @defaultValue 0 */
  readonly minFreeMemoryBytes?: number | undefined;
  /** @defaultValue the memory that the system still has for this process */
  readonly freeMemoryBytes?: (() => number) | undefined;
  /** Ceiling of the busy timeout of models that have none of their own; 0 = unbounded. @defaultValue 300000 */
  readonly busyTimeoutMs?: number | undefined;
  /** Longest wait for a load, for models that have none of their own; 0 = unbounded. @defaultValue 0 */
  readonly loadTimeoutMs?: number | undefined;
  /** Which slot counts are admitted, and what models take. @defaultValue every count that the family supports */
  readonly policy?: ModelPolicy | undefined;
  /** Called for each native batch of each model. */
  readonly watchBatches?: BatchWatch | undefined;
  /** Gets errors that no caller waits for, such as those of listeners and of idle unloads. @defaultValue ignored */
  readonly onBackgroundError?: ((error: unknown) => void) | undefined;
}

export interface ManagementResult {
  readonly entry: ModelEntry;
  /** Whether a pool was replaced; false for a model that was new, unloaded or already so configured. */
  readonly reconfigured: boolean;
}

export interface BulkUnload {
  /** Each model once, in the order in which they ceased to be loaded: idle ones first. All of them are freed. */
  readonly unloaded: readonly string[];
  readonly notFound: readonly string[];
}

/** Called in the turn in which a model's state, slots or waiting managers changed. */
export type ModelChangeListener = (status: ModelStatus) => void;

const BUSY_TIMEOUT_MS = 300_000;

/** The models of one worker process over one engine. Entries are never removed: callers may keep them. */
export class Runtime {
  readonly engine: Engine;
  readonly #entries = new Map<string, ModelEntry>();
  readonly #services: EntryServices;
  readonly #listeners = new Set<ModelChangeListener>();
  /** The status that listeners got last, for each model. */
  readonly #told = new WeakMap<ModelEntry, string>();
  readonly #maxLoadedModels: number;
  #closing: Promise<void> | undefined;

  constructor(engine: Engine, clock: Clock, options: RuntimeOptions = {}) {
    const { policy = FAMILY_DECIDES, onBackgroundError = () => undefined } = options;
    this.engine = engine;
    this.#maxLoadedModels = options.maxLoadedModels ?? 0;
    const guard = new LoadGuard({
      maxLoadedModels: this.#maxLoadedModels,
      minFreeMemoryBytes: options.minFreeMemoryBytes ?? 0,
      freeMemoryBytes: options.freeMemoryBytes ?? (() => process.availableMemory()),
      residents: () => this.#entries.values(),
      plan: (configuration) => policy.plan(configuration),
    });
    this.#services = {
      engine,
      clock,
      guard,
      policy,
      busyTimeoutMs: options.busyTimeoutMs ?? BUSY_TIMEOUT_MS,
      loadTimeoutMs: options.loadTimeoutMs ?? 0,
      idleUnloadMs: options.idleUnloadMs ?? 0,
      watchBatches: options.watchBatches,
      onChange: (entry) => this.#tell(entry),
      onBackgroundError,
    };
  }

  get entries(): ReadonlyMap<string, ModelEntry> {
    return this.#entries;
  }

  /**
   * Publishes one entry that stays for the life of the process; nothing is loaded yet.
   * @throws {WavepoolError} INVALID_REQUEST when the id is taken, SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED
   */
  register(id: string, configuration: ModelConfiguration): ModelEntry {
    if (this.#closing) throw new WavepoolError('SHUTTING_DOWN', 'the runtime is closed');
    if (this.#entries.has(id)) {
      throw new WavepoolError('INVALID_REQUEST', `the model is registered already: ${id}`);
    }
    const entry = new ModelEntry(id, configuration, this.#services);
    this.#entries.set(id, entry);
    this.#tell(entry);
    return entry;
  }

  /** @throws {WavepoolError} MODEL_UNKNOWN */
  entry(id: string): ModelEntry {
    const entry = this.#entries.get(id);
    if (!entry) throw new WavepoolError('MODEL_UNKNOWN', id);
    return entry;
  }

  /** Loads the registered models in their order, as many as may be resident; the others load on first use. */
  async loadEagerly(): Promise<void> {
    const most = this.#maxLoadedModels || this.#entries.size;
    for (const entry of [...this.#entries.values()].slice(0, most)) await entry.load();
  }

  /**
   * Refuses a slot count that no configuration of the model may have, before a command waits for the model.
   * @throws {WavepoolError} SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED
   */
  assertSlotsAdmitted(id: string, slots: number): void {
    const { policy } = this.#services;
    const { unvalidatedSlots } = policy;
    assertSlotsAdmitted({ model: id, slots, evidence: policy.evidence(id), unvalidatedSlots });
  }

  /** @throws {WavepoolError} MODEL_UNKNOWN, BUSY_TIMEOUT, BUSY_OVERDUE, INSUFFICIENT_MEMORY, or why the load failed. */
  async load(id: string, options: ManagementOptions = {}): Promise<ManagementResult> {
    const entry = this.entry(id);
    await entry.load(options);
    return { entry, reconfigured: false };
  }

  /**
   * Replaces the whole configuration, once older work has ended on the old one. Merging a partial one is the caller's:
   * `(current) => ({ ...current, slots: 2 })` is applied under the exclusive lease, to the configuration of that moment.
   * @throws {WavepoolError} MODEL_UNKNOWN, INVALID_REQUEST, SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED, INSUFFICIENT_MEMORY,
   * BUSY_TIMEOUT, BUSY_OVERDUE: all is as before. MODEL_LOAD_FAILED, MODEL_FILE_INVALID: as the strategy says.
   */
  async reconfigure(
    id: string,
    change: (current: ModelConfiguration) => ModelConfiguration,
    options: ReconfigureOptions = {},
  ): Promise<ManagementResult> {
    const entry = this.entry(id);
    return { entry, reconfigured: await entry.reconfigure(change, options) };
  }

  /** Idempotent. @throws {WavepoolError} MODEL_UNKNOWN, BUSY_TIMEOUT, BUSY_OVERDUE */
  async unload(id: string, options: ManagementOptions = {}): Promise<ManagementResult> {
    const entry = this.entry(id);
    await entry.unload(options);
    return { entry, reconfigured: false };
  }

  /**
   * Unloads several models. All places are taken in this turn, before anything is waited for, so that two calls that name
   * the same models in different orders meet in one order on all of them. There is no busy timeout, and models that are
   * registered later are missed.
   * @throws {WavepoolError} INVALID_REQUEST, CANCELLED
   */
  async unloadMany(
    ids: readonly string[] | 'all',
    options: ManagementOptions = {},
  ): Promise<BulkUnload> {
    const named = ids === 'all' ? [...this.#entries.keys()] : [...new Set(ids)];
    const invalid = named.find((id) => typeof id !== 'string');
    if (invalid !== undefined) throw new WavepoolError('INVALID_REQUEST', `not an id: ${invalid}`);
    const places: [ModelEntry, Reservation][] = [];
    const unloaded: string[] = [];
    const notFound = named.filter((id) => !this.#entries.has(id));
    try {
      for (const id of named) {
        const entry = this.#entries.get(id);
        if (entry) places.push([entry, entry.reserve('unload', options)]);
      }
      const ends = await Promise.allSettled(
        places.map(([entry, place]) => unloadAt(entry, place, unloaded)),
      );
      const failed = ends.find((end) => end.status === 'rejected');
      if (failed) throw failed.reason;
    } finally {
      // If taking the places failed half-way, none of them stays behind.
      for (const [, place] of places) place.cancel();
    }
    return { unloaded, notFound };
  }

  /** @returns stops listening */
  onChange(listener: ModelChangeListener): () => void {
    // A function that listens twice is called twice, and each of the two ends on its own.
    const own: ModelChangeListener = (status) => listener(status);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** The status of all models, taken in one turn. It loads nothing and reserves nothing. */
  snapshot(): RuntimeStatus {
    return {
      build: this.engine.build.identity,
      models: [...this.#entries.values()].map((entry) => entry.snapshot()),
    };
  }

  /** Closes every entry at once, also when one fails; then reports the failures together. Idempotent. */
  close(options: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(options);
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Calls the listeners if the status of a model has changed since the last call. One that throws does not stop the others. */
  #tell(entry: ModelEntry): void {
    const status = entry.snapshot();
    const now = toldOf(status);
    if (this.#told.get(entry) === now) return;
    this.#told.set(entry, now);
    for (const listener of [...this.#listeners]) {
      try {
        listener(status);
      } catch (thrown) {
        this.#services.onBackgroundError(thrown);
      }
    }
  }

  async #close(options: CloseOptions): Promise<void> {
    const ends = [...this.#entries.values()].map((entry) => entry.close(options));
    const closed = await Promise.allSettled(ends);
    const reasons = closed.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []));
    if (reasons.length > 0) throw new AggregateError(reasons, 'models could not be closed');
  }
}

async function unloadAt(entry: ModelEntry, place: Reservation, unloaded: string[]): Promise<void> {
  using _lease = place.tryAcquire() ?? (await place.acquire());
  // Its place in the answer says when it ceased to be loaded: idle ones come first.
  unloaded.push(entry.id);
  await entry.retire();
}

/** The part of a status whose changes listeners are called for; the rest changes with every batch. */
function toldOf(status: ModelStatus): string {
  const { path, state, generation, failure, loaded, slots, exclusive, waitingManagers } = status;
  const { maxParallelSlots } = status;
  return JSON.stringify([
    ...[path, state, generation, failure, loaded, slots, exclusive, waitingManagers],
    maxParallelSlots,
  ]);
}

/** Management of the models of one process: who asks for it, and what comes of it. `Runtime` implements it. */
import type { SwapStrategy } from '../../core/worker/control.ts';
import type { ModelStatus } from '../../core/worker/status.ts';
import type { ModelConfiguration } from './model-configuration.ts';
import type { ModelEntry } from './model-entry.ts';

export interface ManagementOptions {
  /** Ends the wait for the model at once; what has begun is finished. */
  readonly signal?: AbortSignal | undefined;
}

export interface ReconfigureOptions extends ManagementOptions {
  /** @defaultValue 'retire-first' */
  readonly strategy?: SwapStrategy;
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

/** Told in the turn in which a model's state, slots or waiting managers changed. */
export type ModelChangeListener = (status: ModelStatus) => void;

export interface ModelManagement {
  /**
   * Publishes one entry that stays for the life of the process; nothing is loaded yet.
   * @throws {WavepoolError} INVALID_REQUEST when the id is taken, SLOTS_UNSUPPORTED
   */
  register(id: string, configuration: ModelConfiguration): ModelEntry;
  /** @throws {WavepoolError} MODEL_UNKNOWN, BUSY_TIMEOUT, BUSY_OVERDUE, INSUFFICIENT_MEMORY, or why the load failed. */
  load(id: string, options?: ManagementOptions): Promise<ManagementResult>;
  /**
   * Replaces the whole configuration, once older work has ended on the old one. Merging a partial one is the caller's:
   * `(current) => ({ ...current, slots: 2 })` is applied under the exclusive lease, to the configuration of that moment.
   * @throws {WavepoolError} MODEL_UNKNOWN, INVALID_REQUEST, SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED, INSUFFICIENT_MEMORY,
   * BUSY_TIMEOUT, BUSY_OVERDUE: all is as before. MODEL_LOAD_FAILED, MODEL_FILE_INVALID: as the strategy says.
   */
  reconfigure(
    id: string,
    change: (current: ModelConfiguration) => ModelConfiguration,
    options?: ReconfigureOptions,
  ): Promise<ManagementResult>;
  /** Idempotent. @throws {WavepoolError} MODEL_UNKNOWN, BUSY_TIMEOUT, BUSY_OVERDUE */
  unload(id: string, options?: ManagementOptions): Promise<ManagementResult>;
  /** Reserves all of them before it waits for any; has no busy timeout. Not atomic: later registrations are missed. */
  unloadMany(ids: readonly string[] | 'all', options?: ManagementOptions): Promise<BulkUnload>;
  /** @returns stops listening */
  onChange(listener: ModelChangeListener): () => void;
}

import { WavepoolError } from '../core/errors.ts';
import type { RuntimeStatus } from '../core/worker/status.ts';
import type { BatchWatch } from './batches/batcher.ts';
import type { Clock } from './clock.ts';
import type { Engine } from './engine.ts';
import { unloadMany } from './models/bulk-unload.ts';
import { ChangeFeed } from './models/change-feed.ts';
import type { EntryServices } from './models/entry-services.ts';
import { LoadGuard } from './models/load-guard.ts';
import type {
  BulkUnload,
  ManagementOptions,
  ManagementResult,
  ModelChangeListener,
  ModelManagement,
  ReconfigureOptions,
} from './models/management.ts';
import { fileBytes, plannedBytes } from './models/memory-estimate.ts';
import type { ModelConfiguration } from './models/model-configuration.ts';
import { type CloseOptions, ModelEntry } from './models/model-entry.ts';
import type { ModelPlanner } from './models/model-plan.ts';
import type { SlotPolicy } from './models/slot-check.ts';

export interface RuntimeOptions {
  /** Most models in memory, beyond which the least recently used idle one goes; 0 = unbounded. @defaultValue 0 */
  readonly maxLoadedModels?: number | undefined;
  /** A model that nobody has used for this long is unloaded; 0 = never. @defaultValue 0 */
  readonly idleUnloadMs?: number | undefined;
  /** What a load must leave free; 0 = memory is not looked at. @defaultValue 0 */
  readonly minFreeMemoryBytes?: number | undefined;
  /** @defaultValue what the system still has for this process */
  readonly freeMemoryBytes?: (() => number) | undefined;
  /** Ceiling of the busy timeout of models that have none of their own; 0 = unbounded. @defaultValue 300000 */
  readonly busyTimeoutMs?: number | undefined;
  /** Longest wait for a load, for models that have none of their own; 0 = unbounded. @defaultValue 0 */
  readonly loadTimeoutMs?: number | undefined;
  /** Tells capacity and memory from metadata. Without one, sessions are probed and file sizes extrapolated. */
  readonly planner?: ModelPlanner | undefined;
  /** @defaultValue every count that the family supports */
  readonly slotPolicy?: SlotPolicy | undefined;
  /** Told of each native batch of each model. */
  readonly watchBatches?: BatchWatch | undefined;
  /** What fails where nobody waits for it: a listener, the end of an idle model. @defaultValue ignored */
  readonly onBackgroundError?: ((error: unknown) => void) | undefined;
}

const BUSY_TIMEOUT_MS = 300_000;
const FAMILY_DECIDES: SlotPolicy = { unvalidated: true, evidence: () => 1 };

/** The models of one worker process over one engine. Entries are never removed: callers may keep them. */
export class Runtime implements ModelManagement {
  readonly engine: Engine;
  readonly #entries = new Map<string, ModelEntry>();
  readonly #services: EntryServices;
  readonly #changes: ChangeFeed;
  readonly #maxLoadedModels: number;
  #closing: Promise<void> | undefined;

  constructor(engine: Engine, clock: Clock, options: RuntimeOptions = {}) {
    const { planner, onBackgroundError = () => undefined } = options;
    this.engine = engine;
    this.#maxLoadedModels = options.maxLoadedModels ?? 0;
    this.#changes = new ChangeFeed(onBackgroundError);
    const guard = new LoadGuard({
      maxLoadedModels: this.#maxLoadedModels,
      minFreeMemoryBytes: options.minFreeMemoryBytes ?? 0,
      freeMemoryBytes: options.freeMemoryBytes ?? (() => process.availableMemory()),
      residents: () => this.#entries.values(),
    });
    this.#services = {
      engine,
      clock,
      guard,
      planner,
      estimate: planner ? plannedBytes(planner) : fileBytes,
      slotPolicy: options.slotPolicy ?? FAMILY_DECIDES,
      busyTimeoutMs: options.busyTimeoutMs ?? BUSY_TIMEOUT_MS,
      loadTimeoutMs: options.loadTimeoutMs ?? 0,
      idleUnloadMs: options.idleUnloadMs ?? 0,
      watchBatches: options.watchBatches,
      onChange: (entry) => this.#changes.tell(entry),
      onBackgroundError,
    };
  }

  get entries(): ReadonlyMap<string, ModelEntry> {
    return this.#entries;
  }

  register(id: string, configuration: ModelConfiguration): ModelEntry {
    if (this.#closing) throw new WavepoolError('SHUTTING_DOWN', 'the runtime is closed');
    if (this.#entries.has(id)) {
      throw new WavepoolError('INVALID_REQUEST', `the model is registered already: ${id}`);
    }
    const entry = new ModelEntry(id, configuration, this.#services);
    this.#entries.set(id, entry);
    this.#changes.tell(entry);
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

  async load(id: string, options: ManagementOptions = {}): Promise<ManagementResult> {
    const entry = this.entry(id);
    await entry.load(options);
    return { entry, reconfigured: false };
  }

  async reconfigure(
    id: string,
    change: (current: ModelConfiguration) => ModelConfiguration,
    options: ReconfigureOptions = {},
  ): Promise<ManagementResult> {
    const entry = this.entry(id);
    return { entry, reconfigured: await entry.reconfigure(change, options) };
  }

  async unload(id: string, options: ManagementOptions = {}): Promise<ManagementResult> {
    const entry = this.entry(id);
    await entry.unload(options);
    return { entry, reconfigured: false };
  }

  unloadMany(ids: readonly string[] | 'all', options: ManagementOptions = {}): Promise<BulkUnload> {
    return unloadMany(this.#entries, ids, options);
  }

  onChange(listener: ModelChangeListener): () => void {
    return this.#changes.listen(listener);
  }

  /** All models in one turn. Loads nothing and reserves nothing. */
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

  async #close(options: CloseOptions): Promise<void> {
    const ends = [...this.#entries.values()].map((entry) => entry.close(options));
    const closed = await Promise.allSettled(ends);
    const reasons = closed.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []));
    if (reasons.length > 0) throw new AggregateError(reasons, 'models could not be closed');
  }
}

import { WavepoolError } from '../core/errors.ts';
import type { RuntimeStatus } from '../core/status.ts';
import type { Clock } from './clock.ts';
import type { Engine } from './engine.ts';
import { type ModelConfiguration, ModelEntry } from './model-entry.ts';

/** The models of one worker process over one engine. Entries are never removed: callers may keep them. */
export class Runtime {
  readonly engine: Engine;
  readonly #clock: Clock;
  readonly #entries = new Map<string, ModelEntry>();

  constructor(engine: Engine, clock: Clock) {
    this.engine = engine;
    this.#clock = clock;
  }

  get entries(): ReadonlyMap<string, ModelEntry> {
    return this.#entries;
  }

  /**
   * Registers a model without loading it.
   * @throws {WavepoolError} INVALID_REQUEST when the id is taken, SLOTS_UNSUPPORTED
   */
  add(id: string, configuration: ModelConfiguration): ModelEntry {
    if (this.#entries.has(id)) {
      throw new WavepoolError('INVALID_REQUEST', `the model is registered already: ${id}`);
    }
    const entry = new ModelEntry(id, configuration, this.engine, this.#clock);
    this.#entries.set(id, entry);
    return entry;
  }

  /** @throws {WavepoolError} MODEL_UNKNOWN */
  entry(id: string): ModelEntry {
    const entry = this.#entries.get(id);
    if (!entry) throw new WavepoolError('MODEL_UNKNOWN', id);
    return entry;
  }

  /** All models in one turn. Loads nothing and reserves nothing. */
  snapshot(): RuntimeStatus {
    return {
      build: this.engine.build.identity,
      models: [...this.#entries.values()].map((entry) => entry.snapshot()),
    };
  }

  /** Closes every entry, also when one fails; then reports the failures together. Idempotent. */
  async close(): Promise<void> {
    const closed = await Promise.allSettled([...this.#entries.values()].map((e) => e.close()));
    const reasons = closed.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []));
    if (reasons.length > 0) throw new AggregateError(reasons, 'models could not be closed');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

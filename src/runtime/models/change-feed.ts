import type { ModelStatus } from '../../core/worker/status.ts';
import type { ModelChangeListener } from './management.ts';
import type { ModelEntry } from './model-entry.ts';

/** Tells listeners what has changed about models: in the turn of the change, and nothing twice. */
export class ChangeFeed {
  readonly #listeners = new Set<ModelChangeListener>();
  readonly #told = new WeakMap<ModelEntry, string>();
  readonly #onError: (error: unknown) => void;

  /** @param onError is told what a listener throws; the others still hear of the change. */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** @returns stops listening */
  listen(listener: ModelChangeListener): () => void {
    // Two listens with one function are two: each ends on its own.
    const own: ModelChangeListener = (status) => listener(status);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  tell(entry: ModelEntry): void {
    const status = entry.snapshot();
    const now = essence(status);
    if (this.#told.get(entry) === now) return;
    this.#told.set(entry, now);
    for (const listener of [...this.#listeners]) {
      try {
        listener(status);
      } catch (thrown) {
        this.#onError(thrown);
      }
    }
  }
}

/** What is worth telling; the rest changes with every batch. */
function essence(status: ModelStatus): string {
  const { path, state, generation, failure, loaded, slots, exclusive, waitingManagers } = status;
  const { maxParallelSlots } = status;
  return JSON.stringify([
    ...[path, state, generation, failure, loaded, slots, exclusive, waitingManagers],
    maxParallelSlots,
  ]);
}

import type { ModelInfo, SessionPool } from '../engine.ts';
import type { RunLease } from '../slots/leases.ts';
import type { Publication } from './publication.ts';

export interface StreamLeaseOptions {
  readonly lease: RunLease;
  readonly publication: Publication;
  readonly generation: number;
  readonly ending: AbortSignal;
  readonly onRelease: () => void;
}

/**
 * Ownership of one slot of a loaded model by one caller, for a whole stream. No manager touches the pool before the lease is
 * released, whatever becomes of the stream: `using stream = await entry.acquireStream()`.
 */
export class StreamLease implements Disposable {
  readonly pool: SessionPool;
  readonly info: ModelInfo;
  /** The generation of the model that the slot belongs to.*/
  readonly generation: number;
  /** Aborted with SHUTTING_DOWN when the drain deadline of a shutdown has passed: the stream should end then. */
  readonly ending: AbortSignal;
  readonly #lease: RunLease;
  readonly #onRelease: () => void;

  constructor({ lease, publication, generation, ending, onRelease }: StreamLeaseOptions) {
    this.pool = publication.pool;
    this.info = publication.model.info;
    this.generation = generation;
    this.ending = ending;
    this.#lease = lease;
    this.#onRelease = onRelease;
  }

  /** @throws {WavepoolError} INTERNAL once released: the slot may belong to somebody else. */
  get slot(): number {
    return this.#lease.slot;
  }

  get released(): boolean {
    return this.#lease.released;
  }

  /** Idempotent. */
  release(): void {
    if (this.released) return;
    this.#lease.release();
    this.#onRelease();
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

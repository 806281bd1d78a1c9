import { WavepoolError } from '../../core/errors.ts';

/** Gives something back exactly once: a second `release` never frees what a later owner holds. */
class Lease implements Disposable {
  #free: (() => void) | undefined;

  constructor(free: () => void) {
    this.#free = free;
  }

  get released(): boolean {
    return this.#free === undefined;
  }

  /** Idempotent. */
  release(): void {
    const free = this.#free;
    this.#free = undefined;
    free?.();
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

/** A whole model, held by a manager (load, unload, reconfigure): nothing runs meanwhile. It has no slot. */
export class ManagementLease extends Lease {
  readonly kind = 'management';
}

/** One slot, for one run: a request, a batch, or a stream from start to finish. */
export class RunLease extends Lease {
  readonly kind = 'run';
  readonly #slot: number;

  constructor(slot: number, free: () => void) {
    super(free);
    this.#slot = slot;
  }

  /** @throws {WavepoolError} INTERNAL once released: the slot may belong to somebody else. */
  get slot(): number {
    if (this.released) throw new WavepoolError('INTERNAL', 'the slot of a released lease was used');
    return this.#slot;
  }
}

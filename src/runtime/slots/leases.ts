/** Leases, which own a slot or a whole model, and reservations, which are places in the queue for a whole model. */
import { WavepoolError } from '../../core/errors.ts';

/** Ownership that is given back exactly once: a second `release` never frees what a later owner holds. */
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

/** Ownership of a whole model by a manager (load, unload, reconfigure). Nothing else runs meanwhile; it has no slot. */
export class ManagementLease extends Lease {
  readonly kind = 'management';
}

/** Ownership of one slot for one run: a request, a batch, or a stream from start to finish. */
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

/**
 * A manager's place in the queue, taken without waiting, so that a bulk operation can reserve many models first and
 * wait afterwards. It yields its lease once; cancelling it lets the requests behind it proceed.
 */
export interface Reservation extends Disposable {
  /**
   * Takes the exclusive lease if it is granted already. Otherwise it is undefined, and the place is kept.
   * @throws {WavepoolError} INTERNAL when the lease was taken before.
   */
  tryAcquire(): ManagementLease | undefined;
  /**
   * Waits for the exclusive lease.
   * @throws {WavepoolError} BUSY_TIMEOUT, CANCELLED; INTERNAL when the lease was taken before.
   */
  acquire(): Promise<ManagementLease>;
  /** Leaves the queue, or gives a granted lease back unless it was taken. Idempotent. */
  cancel(): void;
}

type Outcome =
  | { readonly granted: true; readonly lease: ManagementLease }
  | { readonly granted: false; readonly error: WavepoolError };

interface Waiting {
  resolve(lease: ManagementLease): void;
  reject(error: WavepoolError): void;
}

/** The scheduler's side of a `Reservation`: it calls `grant` or `fail` once, unless `leave` was called before. */
export class PendingReservation implements Reservation {
  readonly #leave: () => void;
  #outcome: Outcome | undefined;
  #waiting: Waiting | undefined;
  #taken = false;

  /** @param leave takes the place out of the queue. */
  constructor(leave: () => void) {
    this.#leave = leave;
  }

  grant(lease: ManagementLease): void {
    this.#outcome = { granted: true, lease };
    this.#waiting?.resolve(lease);
  }

  fail(error: WavepoolError): void {
    this.#outcome = { granted: false, error };
    this.#waiting?.reject(error);
  }

  tryAcquire(): ManagementLease | undefined {
    this.#assertNotTaken();
    if (!this.#outcome?.granted) return undefined;
    this.#taken = true;
    return this.#outcome.lease;
  }

  acquire(): Promise<ManagementLease> {
    return new Promise((resolve, reject) => {
      this.#assertNotTaken();
      this.#taken = true;
      const outcome = this.#outcome;
      if (outcome === undefined) this.#waiting = { resolve, reject };
      else if (outcome.granted) resolve(outcome.lease);
      else reject(outcome.error);
    });
  }

  cancel(): void {
    const outcome = this.#outcome;
    if (outcome === undefined) this.#leave();
    else if (outcome.granted && !this.#taken) outcome.lease.release();
    else return;
    this.fail(new WavepoolError('CANCELLED', 'the reservation was given up'));
  }

  [Symbol.dispose](): void {
    this.cancel();
  }

  #assertNotTaken(): void {
    if (this.#taken) throw new WavepoolError('INTERNAL', 'a reservation was used twice');
  }
}

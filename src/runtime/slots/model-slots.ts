/**
 * Admission to one model: strict first in, first out, for requests (one slot each) and managers (the whole model).
 *
 * Requests take any free slot; a manager at the head of the queue is a barrier: what joined before it finishes first,
 * nothing that joined later passes it, spare slots or not. Ownership is assigned when a waiter is granted, before its
 * promise resolves, so a request that arrives later in the same turn cannot take it. Everything here happens in the
 * caller's turn of the event loop; only the waiting is asynchronous.
 */
import { WavepoolError } from '../../core/errors.ts';
import type { Clock, Timer } from '../clock.ts';
import { cancellation, isOverdue, overdue, waitedTooLong } from '../waiting.ts';
import { ManagementLease, PendingReservation, type Reservation, RunLease } from './leases.ts';

/** Most slots of one model, whatever its family supports. */
export const MAX_SLOTS = 16;

export interface WaitOptions {
  /** Bound on the wait and threshold for "overdue"; 0 = neither. */
  readonly timeoutMs: number;
  /** Names the caller in errors. */
  readonly label: string;
  /** Ends the wait at once; without effect after the grant. */
  readonly signal?: AbortSignal | undefined;
}

export interface SlotsState {
  readonly slots: number;
  /** Occupied request slots; an exclusive holder does not count. */
  readonly active: number;
  readonly exclusive: boolean;
  readonly waitingRequests: number;
  readonly waitingManagers: number;
}

export interface ModelSlotsOptions {
  readonly clock: Clock;
  /** Called in the turn in which a manager joined, left, was granted the model or gave it back; must not throw. */
  readonly onManagersChange?: (() => void) | undefined;
}

interface Waiter {
  readonly deadlineMs: number | undefined;
  readonly expired: () => WavepoolError;
  readonly fail: (error: WavepoolError) => void;
  readonly entitle:
    | { readonly kind: 'request'; readonly grant: (lease: RunLease) => void }
    | { readonly kind: 'management'; readonly grant: (lease: ManagementLease) => void };
  /** Stops the timer and the signal's listener. */
  disarm: () => void;
}

export class ModelSlots {
  readonly #clock: Clock;
  readonly #barrierListeners: (() => void)[] = [];
  readonly #queue: Waiter[] = [];
  /** For each slot, when it was granted; undefined = free. */
  #since: (number | undefined)[] = [undefined];
  #exclusiveSince: number | undefined;
  #epoch = 0;
  readonly #onManagersChange: () => void;
  #managersSeen = 'false 0';

  constructor(options: ModelSlotsOptions) {
    this.#clock = options.clock;
    this.#onManagersChange = options.onManagersChange ?? (() => undefined);
  }

  /** How many managers have joined so far: two requests with the same epoch have no barrier between them. */
  get epoch(): number {
    return this.#epoch;
  }

  /**
   * Sets the number of slots, before publication or under the exclusive lease.
   * @throws {WavepoolError} SLOTS_UNSUPPORTED outside 1…16, INTERNAL while a slot is occupied; nothing is changed then.
   */
  configure(count: number): void {
    if (!Number.isInteger(count) || count < 1 || count > MAX_SLOTS) {
      throw new WavepoolError('SLOTS_UNSUPPORTED', `${count} is not within 1…${MAX_SLOTS}`);
    }
    if (this.#active() > 0) {
      throw new WavepoolError('INTERNAL', 'slots were configured while one was occupied');
    }
    this.#since = new Array<number | undefined>(count).fill(undefined);
  }

  /**
   * Waits for a slot: the lowest free one at once, else in turn.
   * @throws {WavepoolError} BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED
   */
  acquireRun(options: WaitOptions): Promise<RunLease> {
    return new Promise((resolve, reject) => {
      if (options.signal?.aborted) throw cancellation(options.signal);
      const refusal = this.refusal(options);
      if (refusal) throw refusal;
      this.#join(options, { kind: 'request', grant: resolve }, reject);
    });
  }

  /**
   * The reason why a request that arrives now would be refused instead of queued; undefined when it would be accepted.
   * A free slot that it would get at once counts more than overdue ones: one stuck slot must not stop the rest.
   */
  refusal(options: Pick<WaitOptions, 'timeoutMs' | 'label'>): WavepoolError | undefined {
    this.#dispatch();
    if (this.#admitsAtOnce()) return undefined;
    const now = this.#clock.now();
    if (isOverdue(this.#exclusiveSince, options.timeoutMs, now)) {
      return overdue('an exclusive operation is overdue', options.label);
    }
    const held = this.#since.filter((since) => since !== undefined);
    if (held.length > 0 && held.every((since) => isOverdue(since, options.timeoutMs, now))) {
      return overdue('all active slots are overdue', options.label);
    }
    return undefined;
  }

  /**
   * Takes a manager's place in the queue without waiting.
   * @throws {WavepoolError} BUSY_OVERDUE, CANCELLED
   */
  queueManagement(options: WaitOptions): Reservation {
    if (options.signal?.aborted) throw cancellation(options.signal);
    this.#announceBarrier();
    this.#dispatch();
    const now = this.#clock.now();
    if (isOverdue(this.#exclusiveSince, options.timeoutMs, now)) {
      throw overdue('an exclusive operation is overdue', options.label);
    }
    if (this.#since.some((since) => isOverdue(since, options.timeoutMs, now))) {
      throw overdue('an active slot is overdue', options.label);
    }
    const reservation: PendingReservation = new PendingReservation(() => this.#leave(waiter));
    const waiter = this.#join(
      options,
      { kind: 'management', grant: (lease) => reservation.grant(lease) },
      (error) => reservation.fail(error),
    );
    return reservation;
  }

  /**
   * Waits for the whole model.
   * @throws {WavepoolError} BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED
   */
  async acquire(options: WaitOptions): Promise<ManagementLease> {
    return this.queueManagement(options).acquire();
  }

  /** Takes the whole model if nothing runs, nobody is exclusive and nothing waits. It never queues. */
  tryAcquire(): ManagementLease | undefined {
    this.#announceBarrier();
    this.#dispatch();
    if (!this.idle) return undefined;
    this.#epoch += 1;
    const lease = this.#grantAll(this.#clock.now());
    this.#tellManagers();
    return lease;
  }

  /**
   * Calls `listener` in the turn in which a manager is about to join (or to try), just before it does. Whoever holds
   * requests back to batch them joins the queue now, so that they keep their place before the manager.
   */
  beforeBarrier(listener: () => void): void {
    this.#barrierListeners.push(listener);
  }

  /** Ends every wait with `error`, of requests and managers alike; who holds a lease keeps it. */
  dismiss(error: WavepoolError): void {
    for (const waiter of [...this.#queue]) {
      this.#remove(waiter);
      waiter.fail(error);
    }
    this.#dispatch();
  }

  /** Whether nothing runs, nobody is exclusive and nothing waits. */
  get idle(): boolean {
    return this.#exclusiveSince === undefined && this.#active() === 0 && this.#queue.length === 0;
  }

  state(): SlotsState {
    return {
      slots: this.#since.length,
      active: this.#active(),
      exclusive: this.#exclusiveSince !== undefined,
      waitingRequests: this.#waiting('request'),
      waitingManagers: this.#waiting('management'),
    };
  }

  #active(): number {
    return this.#since.filter((since) => since !== undefined).length;
  }

  #waiting(kind: Waiter['entitle']['kind']): number {
    return this.#queue.filter((waiter) => waiter.entitle.kind === kind).length;
  }

  #admitsAtOnce(): boolean {
    return (
      this.#exclusiveSince === undefined &&
      this.#queue.length === 0 &&
      this.#since.includes(undefined)
    );
  }

  #announceBarrier(): void {
    for (const listener of this.#barrierListeners) listener();
  }

  #join(options: WaitOptions, entitle: Waiter['entitle'], fail: Waiter['fail']): Waiter {
    const { timeoutMs, label, signal } = options;
    const waiter: Waiter = {
      deadlineMs: timeoutMs > 0 ? this.#clock.now() + timeoutMs : undefined,
      expired: () => waitedTooLong(label, timeoutMs),
      fail,
      entitle,
      disarm: () => undefined,
    };
    this.#queue.push(waiter);
    if (entitle.kind === 'management') this.#epoch += 1;
    this.#dispatch();
    if (this.#queue.includes(waiter)) this.#arm(waiter, timeoutMs, signal);
    return waiter;
  }

  #arm(waiter: Waiter, timeoutMs: number, signal: AbortSignal | undefined): void {
    const end = (error: WavepoolError): void => {
      this.#leave(waiter);
      waiter.fail(error);
    };
    let timer: Timer | undefined;
    if (timeoutMs > 0) timer = this.#clock.setTimer(timeoutMs, () => end(waiter.expired()));
    const onAbort = (): void => {
      if (signal) end(cancellation(signal));
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    waiter.disarm = () => {
      timer?.cancel();
      signal?.removeEventListener('abort', onAbort);
    };
  }

  #leave(waiter: Waiter): void {
    this.#remove(waiter);
    this.#dispatch();
  }

  #remove(waiter: Waiter): void {
    const place = this.#queue.indexOf(waiter);
    if (place >= 0) this.#queue.splice(place, 1);
    waiter.disarm();
  }

  #dispatch(): void {
    this.#grantFromHead();
    this.#tellManagers();
  }

  #tellManagers(): void {
    const now = `${this.#exclusiveSince !== undefined} ${this.#waiting('management')}`;
    if (now === this.#managersSeen) return;
    this.#managersSeen = now;
    this.#onManagersChange();
  }

  /** Grants the heads of the queue, one after the other, until one has to wait. Drops heads whose deadline has passed. */
  #grantFromHead(): void {
    const now = this.#clock.now();
    for (let head = this.#queue[0]; head !== undefined; head = this.#queue[0]) {
      if (head.deadlineMs !== undefined && now >= head.deadlineMs) {
        this.#remove(head);
        head.fail(head.expired());
        continue;
      }
      if (this.#exclusiveSince !== undefined) return;
      const { entitle } = head;
      if (entitle.kind === 'management') {
        if (this.#active() > 0) return;
        this.#remove(head);
        entitle.grant(this.#grantAll(now));
      } else {
        const slot = this.#since.indexOf(undefined);
        if (slot < 0) return;
        this.#remove(head);
        entitle.grant(this.#grantSlot(slot, now));
      }
    }
  }

  #grantSlot(slot: number, now: number): RunLease {
    this.#since[slot] = now;
    return new RunLease(slot, () => {
      this.#since[slot] = undefined;
      this.#dispatch();
    });
  }

  #grantAll(now: number): ManagementLease {
    this.#exclusiveSince = now;
    return new ManagementLease(() => {
      this.#exclusiveSince = undefined;
      this.#dispatch();
    });
  }
}

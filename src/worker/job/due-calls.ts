/**
 * Calls to be made after a while unless they are taken back, as nearly all are that limit how long a job may take. One timer
 * serves all of them: it is set for the first that comes due, and taking a call back leaves it alone.
 */
import type { Timer } from '../../runtime/clock.ts';

/** `setTimeout` fires at once when asked for more than this. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export class DueCalls {
  readonly #calls = new Set<DueCall>();
  #timer: NodeJS.Timeout | undefined;
  /** When it fires. */
  #timerAt = Number.POSITIVE_INFINITY;

  /** Calls `act` once, `ms` from now, never in the same turn. Keeps no process alive. */
  after(ms: number, act: () => void): Timer {
    const call = new DueCall(this.#calls, performance.now() + ms, act);
    this.#calls.add(call);
    if (call.at < this.#timerAt) this.#wakeAt(call.at);
    return call;
  }

  #wakeAt(at: number): void {
    clearTimeout(this.#timer);
    this.#timerAt = at;
    const ms = Math.min(Math.max(1, Math.ceil(at - performance.now())), MAX_TIMEOUT_MS);
    this.#timer = setTimeout(() => this.#wake(), ms).unref();
  }

  #wake(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    const now = performance.now();
    let next = Number.POSITIVE_INFINITY;
    for (const call of [...this.#calls]) {
      if (call.at > now) next = Math.min(next, call.at);
      else if (this.#calls.delete(call)) call.act?.();
    }
    // One that was asked for meanwhile may be earlier.
    if (next < this.#timerAt) this.#wakeAt(next);
  }
}

class DueCall implements Timer {
  readonly #all: Set<DueCall>;
  /** Of `performance.now()`. */
  readonly at: number;
  act: (() => void) | undefined;

  constructor(all: Set<DueCall>, at: number, act: () => void) {
    this.#all = all;
    this.at = at;
    this.act = act;
  }

  cancel(): void {
    // V8 keeps what a busy `Set` has held until its next full collection.
    this.act = undefined;
    this.#all.delete(this);
  }
}

import type { Clock, Timer } from '../../src/runtime/clock.ts';

/** Lets every promise continuation of this turn run. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Time passes only by `advance`. */
export class ManualClock implements Clock {
  #now = 0;
  readonly #timers = new Set<{ dueAt: number; callback: () => void }>();

  now(): number {
    return this.#now;
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    const timer = { dueAt: this.#now + delayMs, callback };
    this.#timers.add(timer);
    return { cancel: () => this.#timers.delete(timer) };
  }

  /** Timers that were neither fired nor cancelled. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Fires due timers in their order, letting settled promises run before each and at the end. */
  async advance(ms: number): Promise<void> {
    await turn();
    const end = this.#now + ms;
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#now = next.dueAt;
      this.#timers.delete(next);
      next.callback();
      await turn();
    }
    this.#now = end;
    await turn();
  }

  #next(end: number) {
    return [...this.#timers]
      .filter((timer) => timer.dueAt <= end)
      .reduce((first: { dueAt: number; callback: () => void } | undefined, timer) => {
        return first && first.dueAt <= timer.dueAt ? first : timer;
      }, undefined);
  }
}

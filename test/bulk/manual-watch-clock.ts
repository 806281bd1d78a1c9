import type { WatchClock } from '../../src/bulk/watch-inputs.ts';

interface Sleeper {
  readonly until: number;
  readonly wake: () => void;
}

/** Time that passes when the test says so, for one sleeper at a time. */
export class ManualWatchClock implements WatchClock {
  #now = 0;
  #sleeper: Sleeper | undefined;
  #onSleep: () => void = () => undefined;

  now(): number {
    return this.#now;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const sleeper = { until: this.#now + ms, wake: resolve };
      this.#sleeper = sleeper;
      const wake = (): void => {
        if (this.#sleeper === sleeper) this.#sleeper = undefined;
        reject(new Error('woken'));
      };
      signal.addEventListener('abort', wake, { once: true });
      if (signal.aborted) wake();
      this.#onSleep();
    });
  }

  /** Lets time pass; returns when whoever slept sleeps again, beyond that time. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const sleeper = await this.#asleep();
      if (sleeper.until > end) break;
      this.#now = Math.max(this.#now, sleeper.until);
      this.#sleeper = undefined;
      sleeper.wake();
    }
    this.#now = end;
  }

  async #asleep(): Promise<Sleeper> {
    while (this.#sleeper === undefined) await this.#nextSleep();
    return this.#sleeper;
  }

  #nextSleep(): Promise<void> {
    return new Promise((resolve) => {
      this.#onSleep = resolve;
    });
  }
}

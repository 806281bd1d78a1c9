import type { Clock, Timer } from '../clock.ts';

export interface IdleClockOptions {
  readonly clock: Clock;
  /** How long a model may stay unused; 0 = for ever. */
  readonly limitMs: number;
  /** The limit has passed. Whoever is asked stops the clock, or is asked again a limit later. */
  readonly onIdle: () => void;
}

/** When one model was last loaded or run, and the timer that retires it; runs between `start` and `stop`. */
export class IdleClock {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #onIdle: () => void;
  #lastUsedMs: number;
  #timer: Timer | undefined;

  constructor({ clock, limitMs, onIdle }: IdleClockOptions) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#onIdle = onIdle;
    this.#lastUsedMs = clock.now();
  }

  get lastUsedMs(): number {
    return this.#lastUsedMs;
  }

  get idleMs(): number {
    return Math.max(0, this.#clock.now() - this.#lastUsedMs);
  }

  touch(): void {
    this.#lastUsedMs = this.#clock.now();
  }

  start(): void {
    this.touch();
    if (this.#limitMs > 0) this.#arm(this.#limitMs);
  }

  /** Idempotent. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(delayMs: number): void {
    this.stop();
    this.#timer = this.#clock.setTimer(delayMs, () => {
      const leftMs = this.#limitMs - this.idleMs;
      // Armed first, so that being stopped by whoever is asked lasts.
      this.#arm(leftMs > 0 ? leftMs : this.#limitMs);
      if (leftMs <= 0) this.#onIdle();
    });
  }
}

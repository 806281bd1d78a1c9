import type { Clock, Timer } from '../clock.ts';

export interface IdleClockOptions {
  readonly clock: Clock;
  /** How long a model may stay unused; 0 = without limit. */
  readonly limitMs: number;
  /** Called when the limit has passed, and again after each further limit until the clock is stopped. */
  readonly onIdle: () => void;
}

/** Notes when one model was last loaded or run, and calls back when it has been idle too long, from `start` to `stop`. */
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
      // The timer is set before the call, so that a `stop` in the call lasts.
      this.#arm(leftMs > 0 ? leftMs : this.#limitMs);
      if (leftMs <= 0) this.#onIdle();
    });
  }
}

/** A timer that has not fired yet; `cancel` is idempotent and does nothing once it has fired. */
export interface Timer {
  cancel(): void;
}

/** The only source of time in the runtime, so that tests decide when it passes. */
export interface Clock {
  /** Monotonic milliseconds; only differences mean anything. */
  now(): number;
  /** Calls `callback` once, `delayMs` from now, never in the same turn. */
  setTimer(delayMs: number, callback: () => void): Timer;
}

/** `setTimeout` fires at once when asked for more than this. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  setTimer(delayMs, callback) {
    let handle: NodeJS.Timeout;
    const arm = (leftMs: number): void => {
      const stepMs = Math.min(leftMs, MAX_TIMEOUT_MS);
      handle = setTimeout(() => {
        if (leftMs > stepMs) arm(leftMs - stepMs);
        else callback();
      }, stepMs);
    };
    arm(delayMs);
    return { cancel: () => clearTimeout(handle) };
  },
};

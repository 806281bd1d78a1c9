/** A timer for waits of any length, which does not keep the process alive. */
import type { Timer } from '../../runtime/clock.ts';

/** `setTimeout` fires at once when it is asked for more than this. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Calls `act` once, `ms` from now, never in the same turn of the event loop. */
export function startLongTimer(ms: number, act: () => void): Timer {
  let handle: NodeJS.Timeout;
  const wait = (leftMs: number): void => {
    const stepMs = Math.min(leftMs, MAX_TIMEOUT_MS);
    const next = () => (leftMs > stepMs ? wait(leftMs - stepMs) : act());
    handle = setTimeout(next, stepMs).unref();
  };
  wait(ms);
  return { cancel: () => clearTimeout(handle) };
}

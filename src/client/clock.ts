import { setTimeout as sleep } from 'node:timers/promises';

/** What the client knows of time; tests bring their own. */
export interface ClientClock {
  /** Milliseconds that only grow. */
  now(): number;
  /** Rejects when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const SYSTEM_CLOCK: ClientClock = {
  now: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, signal === undefined ? {} : { signal }),
};

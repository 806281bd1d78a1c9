import { expect } from 'vitest';
import type { ErrorCode } from '../../../src/core/errors.ts';
import type { RunLease } from '../../../src/runtime/slots/leases.ts';
import { ModelSlots, type WaitOptions } from '../../../src/runtime/slots/model-slots.ts';
import { ManualClock } from '../manual-clock.ts';

const opened: { clock: ManualClock; slots: ModelSlots }[] = [];

/** Slots on a clock of their own; `expectNothingHeld` checks them after the test. */
export function model(count: number) {
  const clock = new ManualClock();
  const slots = new ModelSlots({ clock });
  slots.configure(count);
  opened.push({ clock, slots });
  return { clock, slots };
}

/** For `afterEach`: every lease is back, nobody waits, no timer is left. */
export function expectNothingHeld(): void {
  for (const { clock, slots } of opened.splice(0)) {
    expect(slots.state()).toMatchObject({
      active: 0,
      exclusive: false,
      waitingRequests: 0,
      waitingManagers: 0,
    });
    expect(clock.pending).toBe(0);
  }
}

export function request(timeoutMs = 0, signal?: AbortSignal): WaitOptions {
  return { timeoutMs, label: 'request', signal };
}

export function manager(timeoutMs = 0, signal?: AbortSignal): WaitOptions {
  return { timeoutMs, label: 'manager', signal };
}

export function occupy(slots: ModelSlots, count: number): Promise<RunLease[]> {
  return Promise.all(Array.from({ length: count }, () => slots.acquireRun(request())));
}

export interface Seen<T> {
  value?: T;
  error?: unknown;
  settled: boolean;
  /** Resolves when the promise has settled, either way. */
  ended: Promise<void>;
}

/** What a promise has come to by now, without waiting for it. */
export function watch<T>(promise: Promise<T>): Seen<T> {
  const seen: Seen<T> = { settled: false, ended: Promise.resolve() };
  seen.ended = promise.then(
    (value) => void Object.assign(seen, { value, settled: true }),
    (error: unknown) => void Object.assign(seen, { error, settled: true }),
  );
  return seen;
}

/** Matches an error by its code and by words of its message. */
export function failure(code: ErrorCode, words = ''): unknown {
  return expect.objectContaining({ code, message: expect.stringContaining(words) });
}

export const timedOut = failure('BUSY_TIMEOUT', 'waited too long');

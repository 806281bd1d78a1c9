/** How a wait ends before its time: the busy timeout and what counts as overdue, the load timeout, an aborted signal. */
import { WavepoolError } from '../core/errors.ts';
import type { Clock, Timer } from './clock.ts';

function assertTimeout(name: string, valueMs: number): void {
  if (Number.isFinite(valueMs) && valueMs >= 0) return;
  throw new WavepoolError('INVALID_REQUEST', `${name} must be 0 or more milliseconds: ${valueMs}`);
}

/**
 * The smaller of the model's ceiling and the request's wish; 0 means "no bound" on both sides.
 * @throws {WavepoolError} INVALID_REQUEST for negative or non-finite values.
 */
export function effectiveBusyTimeoutMs(ceilingMs: number, requestMs?: number): number {
  assertTimeout('the busy timeout of the model', ceilingMs);
  if (requestMs === undefined) return ceilingMs;
  assertTimeout('busyTimeoutMs', requestMs);
  if (ceilingMs === 0) return requestMs;
  return requestMs === 0 ? ceilingMs : Math.min(requestMs, ceilingMs);
}

/**
 * Whether a holder has kept its lease for strictly longer than the arriving caller's timeout.
 * @param sinceMs when the lease was granted; undefined when nobody holds it.
 */
export function isOverdue(sinceMs: number | undefined, timeoutMs: number, nowMs: number): boolean {
  return timeoutMs > 0 && sinceMs !== undefined && nowMs - sinceMs > timeoutMs;
}

export function waitedTooLong(label: string, timeoutMs: number): WavepoolError {
  return new WavepoolError(
    'BUSY_TIMEOUT',
    `${label} waited too long for a slot (${timeoutMs} ms allowed)`,
  );
}

export type OverdueReason =
  | 'all active slots are overdue'
  | 'an active slot is overdue'
  | 'an exclusive operation is overdue';

export function overdue(reason: OverdueReason, label: string): WavepoolError {
  return new WavepoolError('BUSY_OVERDUE', `${reason}; ${label} was not queued`);
}

/**
 * What a wait that `signal` ended rejects with: CANCELLED with the signal's reason as its cause. A reason that is a
 * `WavepoolError` already (JOB_TIMEOUT, DEADLINE_EXCEEDED) is kept, so that each clock of a job keeps its own code.
 */
export function cancellation(signal: AbortSignal): WavepoolError {
  const reason: unknown = signal.reason;
  if (reason instanceof WavepoolError) return reason;
  const detail = reason instanceof Error ? reason.message : String(reason);
  return new WavepoolError('CANCELLED', detail, { cause: reason });
}

export interface WaitBounds {
  readonly clock: Clock;
  /** 0 = unbounded. */
  readonly timeoutMs: number;
  readonly expired: () => WavepoolError;
  /** Any of them ends the wait at once. */
  readonly signals: readonly (AbortSignal | undefined)[];
}

/** Waits for `work`, unless the time is up or a signal is aborted before it ends. The work itself goes on. */
export function waitFor<T>(work: Promise<T>, bounds: WaitBounds): Promise<T> {
  const signals = bounds.signals.filter((signal) => signal !== undefined);
  return new Promise((resolve, reject) => {
    let timer: Timer | undefined;
    const stop = (): void => {
      timer?.cancel();
      for (const signal of signals) signal.removeEventListener('abort', onAbort);
    };
    const onAbort = (): void => {
      const aborted = signals.find((signal) => signal.aborted);
      if (!aborted) return;
      stop();
      reject(cancellation(aborted));
    };
    if (bounds.timeoutMs > 0) {
      timer = bounds.clock.setTimer(bounds.timeoutMs, () => {
        stop();
        reject(bounds.expired());
      });
    }
    for (const signal of signals) signal.addEventListener('abort', onAbort);
    onAbort();
    work.then(resolve, reject).finally(stop);
  });
}

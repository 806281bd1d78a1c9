/** The busy timeout: how long a caller may wait for admission, and from when on a holder counts as overdue for it. */
import { WavepoolError } from '../core/errors.ts';

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

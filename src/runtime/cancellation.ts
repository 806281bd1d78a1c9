import { WavepoolError } from '../core/errors.ts';

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

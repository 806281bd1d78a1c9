/** When a request is sent again, and how long that waits. Pure. */

/** How an attempt ended that did not succeed. */
export interface FailedAttempt {
  /**
   * `refused`: the server did nothing and says when to come back. `unknown`: it may or may not have done what was asked.
   * `final`: another attempt would end the same way.
   */
  readonly kind: 'refused' | 'unknown' | 'final';
  /** What the server asks for. */
  readonly retryAfterMs?: number | undefined;
}

export interface RetryRules {
  /** After the first attempt. */
  readonly maxRetries: number;
  /** 0 up to, but not including, 1. */
  readonly random: () => number;
}

/** Whoever would have to wait for longer is better told at once. */
const LONGEST_WAIT_MS = 60_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8_000;

/**
 * Milliseconds before the next attempt; undefined when there is to be none.
 * @param attempt 1 for the first
 * @param idempotent whether being done twice is the same as once
 */
export function pauseBeforeRetry(
  attempt: number,
  { kind, retryAfterMs }: FailedAttempt,
  { maxRetries, random, idempotent }: RetryRules & { readonly idempotent: boolean },
): number | undefined {
  if (attempt > maxRetries || kind === 'final') return undefined;
  if (kind === 'unknown' && !idempotent) return undefined;
  if (retryAfterMs !== undefined && retryAfterMs > LONGEST_WAIT_MS) return undefined;
  return Math.max(retryAfterMs ?? 0, backOff(attempt, random));
}

/** Doubles with each attempt, and is shortened at random by up to half, so that clients do not come back all at once. */
export function backOff(attempt: number, random: () => number, firstMs = FIRST_PAUSE_MS): number {
  const full = Math.min(firstMs * 2 ** (attempt - 1), Math.max(LONGEST_PAUSE_MS, firstMs));
  return Math.round(full * (1 - random() / 2));
}

/** Retry-After: seconds, or a date. */
export function retryAfterOf(headers: Headers, nowMs: number): number | undefined {
  const value = headers.get('retry-after')?.trim() ?? '';
  if (/^\d+$/.test(value)) return Number(value) * 1_000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

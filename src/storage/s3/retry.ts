/**
 * Decides when a request to the store is repeated: after every error that may pass, until a time limit. The SDK's own
 * strategies count attempts and share a budget, which an outage of a few seconds uses up when many jobs run.
 */
import type { S3ClientConfig } from '@aws-sdk/client-s3';

type RetryStrategy = Extract<
  NonNullable<S3ClientConfig['retryStrategy']>,
  { acquireInitialRetryToken: unknown }
>;
type RetryToken = Awaited<ReturnType<RetryStrategy['acquireInitialRetryToken']>>;
type RetryErrorInfo = Parameters<RetryStrategy['refreshRetryTokenForRetry']>[1];

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 3_000;

/** Two writers used one key at once. The store decides when the request is repeated. */
const CONFLICTS = new Set(['ConditionalRequestConflict', 'OperationAborted']);

class Attempt implements RetryToken {
  readonly startedAt: number;
  readonly #count: number;
  readonly #delayMs: number;

  constructor(startedAt: number, count: number, delayMs: number) {
    this.startedAt = startedAt;
    this.#count = count;
    this.#delayMs = delayMs;
  }

  getRetryCount(): number {
    return this.#count;
  }

  getRetryDelay(): number {
    return this.#delayMs;
  }
}

export class PatientRetry implements RetryStrategy {
  /** The time limit, counted from the first attempt of a request. */
  patienceMs: number;

  constructor(patienceMs: number) {
    this.patienceMs = patienceMs;
  }

  acquireInitialRetryToken(): Promise<RetryToken> {
    return Promise.resolve(new Attempt(performance.now(), 0, 0));
  }

  /** Rejects when the request is not to be repeated. */
  refreshRetryTokenForRetry(token: RetryToken, info: RetryErrorInfo): Promise<RetryToken> {
    const count = token.getRetryCount() + 1;
    const startedAt = token instanceof Attempt ? token.startedAt : performance.now();
    const pauseMs = this.#pauseBefore(count);
    const late = performance.now() + pauseMs - startedAt > this.patienceMs;
    if (late || !mayPass(info)) {
      return Promise.reject(info.error ?? new Error('the request is not repeated'));
    }
    return Promise.resolve(new Attempt(startedAt, count, pauseMs));
  }

  recordSuccess(): void {
    // Requests share no state, so there is nothing to record.
  }

  /** Shortens the pause at random by up to half, so that workers do not all return at once. */
  #pauseBefore(attempt: number): number {
    const full = Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS);
    return full * (1 - Math.random() / 2);
  }
}

function mayPass({ error, errorType }: RetryErrorInfo): boolean {
  return errorType !== 'CLIENT_ERROR' || CONFLICTS.has(error?.name ?? '');
}

/** Turns errors of the store and the SDK into errors of the error table. */
import { WavepoolError } from '../../core/errors.ts';

const FULL = new Set(['InsufficientStorage', 'QuotaExceeded', 'XMinioStorageFull']);
/** These errors pass when credentials are renewed or a clock is set. */
const PASSING = new Set(['ExpiredToken', 'ExpiredTokenException', 'RequestTimeTooSkewed']);
const NETWORK = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN'],
  ...['EHOSTUNREACH', 'ENETUNREACH', 'ERR_STREAM_PREMATURE_CLOSE'],
]);

/** The HTTP status of the store's answer, if there was one. */
export function statusOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('$metadata' in error)) return undefined;
  const { $metadata: metadata } = error;
  const known = typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata;
  return known && typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : undefined;
}

/** Whether the object does not exist. A missing bucket has another error name, but answers to HEAD have no name. */
export function isMissing(error: unknown): boolean {
  return statusOf(error) === 404 && nameOf(error) !== 'NoSuchBucket';
}

/** Whether a condition of the request was not met. */
export function isPreconditionFailed(error: unknown): boolean {
  return statusOf(error) === 412;
}

/**
 * @param what the request and its object, for the message
 * @returns STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN, STORAGE_UNSUITABLE or STORAGE_FULL. Errors that do not come from the store
 *   are returned unchanged.
 */
export function toStorageError(error: unknown, what: string): unknown {
  if (error instanceof WavepoolError || !(error instanceof Error)) return error;
  const name = nameOf(error);
  const status = statusOf(error);
  const told = (code: Parameters<typeof storageError>[0], advice = ''): WavepoolError =>
    storageError(code, `${what} (${[status, name].filter(Boolean).join(' ')}${advice})`, error);
  if (name === 'NoSuchBucket') return told('STORAGE_UNSUITABLE', '; make the bucket first');
  if (name === 'CredentialsProviderError' || error.message.includes('valid credential'))
    return told('STORAGE_FORBIDDEN', '; give the AWS SDK credentials: AWS_ACCESS_KEY_ID or others');
  if (error.message === 'Region is missing')
    return told('STORAGE_UNSUITABLE', '; set WAVEPOOL_S3_REGION');
  if (FULL.has(name) || status === 507) return told('STORAGE_FULL');
  if (PASSING.has(name)) return told('STORAGE_UNAVAILABLE');
  if (status === 401 || status === 403) return told('STORAGE_FORBIDDEN');
  const code = 'code' in error ? String(error.code) : '';
  const gone = name === 'TimeoutError' || NETWORK.has(code);
  if (gone) return told('STORAGE_UNAVAILABLE', code === '' ? '' : ` ${code}`);
  if (status === undefined) return error;
  if (status >= 500 || status === 408 || status === 429) return told('STORAGE_UNAVAILABLE');
  if (status === 409) return told('STORAGE_UNAVAILABLE');
  return told('STORAGE_UNSUITABLE', `: ${error.message}`);
}

function storageError(
  code: 'STORAGE_UNAVAILABLE' | 'STORAGE_FORBIDDEN' | 'STORAGE_UNSUITABLE' | 'STORAGE_FULL',
  detail: string,
  cause: unknown,
): WavepoolError {
  return new WavepoolError(code, detail, { cause });
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : '';
}

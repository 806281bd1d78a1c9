/**
 * The one table of errors this project raises on purpose. docs/errors.md lists the same codes (a test compares them);
 * native code uses the same names (native/framework/error.h).
 */
interface ErrorRow {
  /** The lower-case class that OpenAI-style clients expect. */
  readonly type: string;
  /** `%s` is replaced by the detail. */
  readonly message: string;
  readonly httpStatus: number;
  /** Whether the same job may succeed later without anything being changed. */
  readonly retryable: boolean;
}

const row = (type: string, httpStatus: number, retryable: boolean, message: string): ErrorRow => ({
  type,
  message,
  httpStatus,
  retryable,
});

const INVALID = 'invalid_request_error';
const BUSY = 'server_busy';
const SERVER = 'server_error';

const ERRORS = {
  INVALID_REQUEST: row(INVALID, 400, false, '%s'),
  AUTH_REQUIRED: row('authentication_error', 401, false, 'authentication is needed: %s'),
  FORBIDDEN: row('permission_error', 403, false, 'not allowed: %s'),
  ROUTE_NOT_FOUND: row('not_found', 404, false, 'nothing is here: %s'),
  METHOD_NOT_ALLOWED: row(INVALID, 405, false, 'this method is not for this address: %s'),
  REQUEST_TOO_LARGE: row(INVALID, 413, false, 'the request is too large: %s'),
  MEDIA_TYPE_UNSUPPORTED: row(INVALID, 415, false, 'the body has the wrong type: %s'),
  IDEMPOTENCY_CONFLICT: row(INVALID, 409, false, 'this key was used for another request: %s'),
  INPUT_NOT_FOUND: row(INVALID, 404, false, 'input not found: %s'),
  INPUT_EMPTY: row(INVALID, 422, false, 'the input holds no audio: %s'),
  INPUT_UNDECODABLE: row(INVALID, 422, false, 'cannot decode the input: %s'),
  INPUT_TOO_LARGE: row(INVALID, 413, false, 'the input is too large: %s'),
  INPUT_CHANGED: row(INVALID, 409, false, 'the input changed while it was read: %s'),
  INPUT_FORBIDDEN: row('permission_error', 403, false, 'this input may not be read: %s'),
  INPUT_FETCH_FAILED: row(SERVER, 502, true, 'the input could not be fetched: %s'),
  FFMPEG_MISSING: row(SERVER, 501, false, 'this format needs ffmpeg, which is not installed: %s'),
  MODEL_UNKNOWN: row('not_found', 404, false, 'unknown model: %s'),
  OPTION_UNSUPPORTED: row(INVALID, 400, false, 'the model does not have this option: %s'),
  TASK_UNSUPPORTED: row(INVALID, 400, false, 'the model does not do this task: %s'),
  MODEL_DOWNLOAD_FAILED: row(SERVER, 502, true, 'the model could not be downloaded: %s'),
  MODEL_FILE_INVALID: row(INVALID, 422, false, 'the model file is not usable: %s'),
  MODEL_LOAD_FAILED: row(SERVER, 500, true, 'the model could not be loaded: %s'),
  MODEL_LOAD_TIMEOUT: row('timeout', 504, true, 'the model was not loaded in time: %s'),
  CAPACITY_UNVALIDATED: row(INVALID, 400, false, 'this slot count is not validated: %s'),
  SLOTS_UNSUPPORTED: row(INVALID, 400, false, 'this slot count is not supported: %s'),
  INSUFFICIENT_MEMORY: row('insufficient_memory', 503, true, 'not enough memory: %s'),
  BUSY_TIMEOUT: row(BUSY, 503, true, 'no slot became free in time: %s'),
  BUSY_OVERDUE: row(BUSY, 503, true, 'running work is overdue: %s'),
  SLOT_BUSY: row(SERVER, 500, true, 'the slot is already running: %s'),
  QUEUE_FULL: row(BUSY, 429, true, 'the queue is full: %s'),
  JOB_TIMEOUT: row('timeout', 504, false, 'the job ran longer than allowed: %s'),
  DEADLINE_EXCEEDED: row('timeout', 504, false, 'the deadline has passed: %s'),
  STREAM_IDLE: row('timeout', 408, false, 'the live stream was abandoned: %s'),
  STREAM_TOO_LONG: row('timeout', 504, false, 'the live stream is over its limit: %s'),
  STREAM_BROKEN: row(INVALID, 400, false, 'the live audio has no proper end: %s'),
  STREAM_LIMIT: row(BUSY, 429, true, 'too many live streams at once: %s'),
  CANCELLED: row('cancelled', 499, false, 'cancelled: %s'),
  JOB_NOT_FOUND: row('not_found', 404, false, 'no such job: %s'),
  JOB_NOT_FINISHED: row(INVALID, 409, false, 'the job has not completed: %s'),
  JOB_NOT_RETRYABLE: row(INVALID, 409, false, 'only a failed job can be retried: %s'),
  BATCH_NOT_FOUND: row('not_found', 404, false, 'no such batch: %s'),
  DELIVERY_NOT_FOUND: row('not_found', 404, false, 'no such delivery: %s'),
  RESULT_NOT_FOUND: row('not_found', 404, false, 'no such result: %s'),
  STORAGE_FULL: row(SERVER, 507, true, 'the result could not be written: %s'),
  STORAGE_UNAVAILABLE: row(SERVER, 503, true, 'the object storage does not answer: %s'),
  STORAGE_FORBIDDEN: row(SERVER, 500, false, 'the object storage refuses access: %s'),
  STORAGE_UNSUITABLE: row(SERVER, 500, false, 'this object storage cannot be used: %s'),
  UPLOAD_MISMATCH: row(INVALID, 422, false, 'the upload is not what was announced: %s'),
  PRESIGN_UNSUPPORTED: row(INVALID, 501, false, 'this server takes no direct uploads: %s'),
  NO_WORKER: row(SERVER, 503, true, 'no live worker for this: %s'),
  WORKER_GONE: row(SERVER, 503, true, 'the worker is gone: %s'),
  CONTROL_TIMEOUT: row('timeout', 504, true, 'a worker has not answered in time: %s'),
  WORKER_CRASHED: row(SERVER, 500, false, 'the worker process crashed on this job: %s'),
  ADDON_MISSING: row(SERVER, 500, false, 'the native addon is not built: %s'),
  CPU_UNSUPPORTED: row(SERVER, 500, false, 'this CPU lacks what the addon was built for: %s'),
  REDIS_MISSING: row(SERVER, 503, false, 'no redis-server or valkey-server is installed: %s'),
  REDIS_UNAVAILABLE: row(SERVER, 503, true, 'Redis cannot be reached: %s'),
  REDIS_UNSUITABLE: row(SERVER, 503, false, 'this Redis cannot hold the queue: %s'),
  REDIS_FULL: row(SERVER, 507, true, 'Redis takes no writes: %s'),
  SERVER_UNREACHABLE: row(SERVER, 503, true, 'the Wavepool server cannot be reached: %s'),
  OUTPUT_BUSY: row(INVALID, 409, false, 'another run uses this output directory: %s'),
  SHUTTING_DOWN: row(BUSY, 503, true, 'shutting down: %s'),
  INTERNAL: row(SERVER, 500, true, 'internal error: %s'),
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof ERRORS;

export const ERROR_CODES = Object.keys(ERRORS) as readonly ErrorCode[];

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(ERRORS, value);
}

/** The table's row for a code. */
export function errorRow(code: ErrorCode): ErrorRow {
  return ERRORS[code];
}

/** An error this project throws on purpose. Callers branch on `code`, never on the message. */
export class WavepoolError extends Error {
  override readonly name = 'WavepoolError';
  readonly code: ErrorCode;
  /** The detail without the table's words around it. */
  readonly detail: string;

  constructor(code: ErrorCode, detail: string, options?: ErrorOptions) {
    super(
      ERRORS[code].message.replace('%s', () => detail),
      options,
    );
    this.code = code;
    this.detail = detail;
  }

  get type(): string {
    return ERRORS[this.code].type;
  }
  get httpStatus(): number {
    return ERRORS[this.code].httpStatus;
  }
  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }
}

/** What is thrown, as a `WavepoolError`: itself, or INTERNAL with the original as its cause. */
export function toWavepoolError(thrown: unknown): WavepoolError {
  if (thrown instanceof WavepoolError) return thrown;
  const detail = thrown instanceof Error ? thrown.message : String(thrown);
  return new WavepoolError('INTERNAL', detail, { cause: thrown });
}

/** `CODE: message`, the form in which a failure travels through the queue's `failedReason`. */
export function formatFailure(error: WavepoolError): string {
  return `${error.code}: ${error.message}`;
}

/** Reads what `formatFailure` wrote; anything else is INTERNAL. */
export function parseFailure(reason: string): { code: ErrorCode; message: string } {
  const colon = reason.indexOf(': ');
  const code = reason.slice(0, Math.max(colon, 0));
  if (isErrorCode(code)) return { code, message: reason.slice(colon + 2) };
  return { code: 'INTERNAL', message: reason };
}

/** The error that `formatFailure` wrote down, with its code and detail. */
export function failureToError(reason: string): WavepoolError {
  const { code, message } = parseFailure(reason);
  const [before = '', after = ''] = ERRORS[code].message.split('%s');
  const framed =
    message.length >= before.length + after.length &&
    message.startsWith(before) &&
    message.endsWith(after);
  const detail = framed ? message.slice(before.length, message.length - after.length) : message;
  return new WavepoolError(code, detail);
}

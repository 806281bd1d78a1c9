/** Sends requests: address, key, time limits, repetition where it is safe, and errors with the server's codes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { WavepoolError } from '../core/errors.ts';
import { errorOfResponse, unreachable } from './answers.ts';
import type { AudioBody, OpenedBody } from './audio-source.ts';
import { type FailedAttempt, pauseBeforeRetry, retryAfterOf } from './retry-policy.ts';

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

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface TransportOptions {
  /** Ends with a slash. */
  readonly baseUrl: URL;
  readonly headers: Headers;
  readonly fetch: typeof globalThis.fetch;
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly clock: ClientClock;
  readonly random: () => number;
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** `/v1/…`, encoded; see `apiPath`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly json?: unknown;
  /** A body of another type. */
  readonly text?: { readonly type: string; readonly content: string } | undefined;
  /** Sent as it is read. */
  readonly audio?: AudioBody | undefined;
  /** Whether being done twice is the same as once. @defaultValue true for all methods but POST */
  readonly idempotent?: boolean | undefined;
  /** Of one attempt, the whole answer included; 0 = no limit. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface DirectPut {
  readonly headers: Readonly<Record<string, string>>;
  /** Can be opened again. */
  readonly audio: AudioBody;
  readonly bytes: number;
  readonly signal?: AbortSignal | undefined;
}

interface Failure extends FailedAttempt {
  readonly error: unknown;
}

type Attempt<Result> = { readonly result: Result } | { readonly failure: Failure };

/** A path of the interface: what is put into it is encoded. */
export function apiPath(strings: TemplateStringsArray, ...values: readonly string[]): string {
  return String.raw({ raw: strings }, ...values.map(encodeURIComponent));
}

export class Transport {
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  get clock(): ClientClock {
    return this.#options.clock;
  }
  get random(): () => number {
    return this.#options.random;
  }

  /**
   * Sends a request, again where that is safe, and reads the answer.
   * @throws {WavepoolError} with the server's code; SERVER_UNREACHABLE; the signal's reason when it aborts
   */
  async send<Result>(
    request: ApiRequest,
    read: (response: Response) => Promise<Result>,
  ): Promise<Result> {
    const { maxRetries, random } = this.#options;
    const { idempotent = request.method !== 'POST', signal } = request;
    for (let attempt = 1; ; attempt++) {
      const ended = await this.#attempt(request, read);
      if ('result' in ended) return ended.result;
      signal?.throwIfAborted();
      const { failure } = ended;
      const rules = { maxRetries, random, idempotent };
      const pauseMs =
        request.audio?.replayable === false ? undefined : pauseBeforeRetry(attempt, failure, rules);
      if (pauseMs === undefined) throw failure.error;
      await this.pause(pauseMs, signal);
    }
  }

  /**
   * Puts audio where the server has said; what is sent to the server with every request is not sent there.
   * @throws {WavepoolError} SERVER_UNREACHABLE; the signal's reason when it aborts
   */
  async put(url: string, { headers, audio, bytes, signal }: DirectPut): Promise<void> {
    const { maxRetries, random, fetch } = this.#options;
    for (let attempt = 1; ; attempt++) {
      const body = await audio.open();
      let failure: Failure;
      try {
        // A blob tells its length by itself; of a stream the storage must know it, too.
        const length = body.body instanceof Blob ? {} : { 'content-length': String(bytes) };
        const sent = { ...headers, ...length };
        const response = await fetch(url, {
          method: 'PUT',
          headers: sent,
          body: body.body,
          duplex: 'half',
          ...(signal === undefined ? {} : { signal }),
        });
        if (response.ok) return;
        const error = unreachable(new Error(`the storage answers ${response.status}`));
        failure = { error, kind: response.status >= 500 ? 'unknown' : 'final' };
      } catch (error) {
        signal?.throwIfAborted();
        failure = sendingFailure(error, body);
      } finally {
        await body[Symbol.asyncDispose]();
      }
      const pauseMs = pauseBeforeRetry(attempt, failure, { maxRetries, random, idempotent: true });
      if (pauseMs === undefined) throw failure.error;
      await this.pause(pauseMs, signal);
    }
  }

  /** Rejects with the signal's reason when it aborts. */
  async pause(ms: number, signal?: AbortSignal): Promise<void> {
    await this.#options.clock.sleep(ms, signal).catch((error: unknown) => {
      signal?.throwIfAborted();
      throw error;
    });
  }

  /**
   * Sends a request once, for a caller who decides what follows a failure.
   * @returns the response when its headers have come, or what went wrong
   */
  async open(request: ApiRequest): Promise<Attempt<Response>> {
    return this.#attempt(request, (response) => Promise.resolve(response));
  }

  async #attempt<Result>(
    request: ApiRequest,
    read: (response: Response) => Promise<Result>,
  ): Promise<Attempt<Result>> {
    const { signal } = request;
    signal?.throwIfAborted();
    const { timeoutMs = this.#options.timeoutMs } = request;
    const body = await request.audio?.open();
    const limit = timeLimit(timeoutMs, this.#options.clock);
    try {
      const signals = signal === undefined ? [limit.signal] : [signal, limit.signal];
      const response = await this.#fetch(request, body, AbortSignal.any(signals));
      if (response.ok) return { result: await read(response) };
      return { failure: await this.#refusal(response) };
    } catch (error) {
      signal?.throwIfAborted();
      return { failure: sendingFailure(limit.signal.aborted ? limit.signal.reason : error, body) };
    } finally {
      limit.end();
      await body?.[Symbol.asyncDispose]();
    }
  }

  #fetch(
    { method, path, query = {}, headers = {}, json, text }: ApiRequest,
    audio: OpenedBody | undefined,
    signal: AbortSignal,
  ): Promise<Response> {
    const url = new URL(path.replace(/^\//, ''), this.#options.baseUrl);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const all = new Headers(this.#options.headers);
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    if (json !== undefined) all.set('content-type', 'application/json');
    if (text !== undefined) all.set('content-type', text.type);
    if (audio !== undefined) all.set('content-type', 'application/octet-stream');
    const body = json === undefined ? (text?.content ?? audio?.body) : JSON.stringify(json);
    return this.#options.fetch(url, {
      method,
      headers: all,
      signal,
      ...(body === undefined ? {} : { body, duplex: 'half' }),
    });
  }

  async #refusal(response: Response): Promise<Failure> {
    const error = await errorOfResponse(response);
    const retryAfterMs = retryAfterOf(response.headers, Date.now());
    return { error, kind: kindOf(response.status, error, retryAfterMs), retryAfterMs };
  }
}

function kindOf(
  status: number,
  error: WavepoolError,
  retryAfterMs: number | undefined,
): FailedAttempt['kind'] {
  if (!error.retryable) return 'final';
  if (retryAfterMs !== undefined && (status === 429 || status === 503)) return 'refused';
  return [429, 502, 503, 504].includes(status) ? 'unknown' : 'final';
}

/** What `fetch` throws, and a body that broke off; errors of our own are not for another attempt. */
function sendingFailure(error: unknown, body: OpenedBody | undefined): Failure {
  if (body?.failure !== undefined) return { error: body.failure.error, kind: 'final' };
  if (error instanceof WavepoolError && error.code !== 'SERVER_UNREACHABLE') {
    return { error, kind: 'final' };
  }
  return { error: unreachable(error), kind: 'unknown' };
}

export interface TimeLimit {
  readonly signal: AbortSignal;
  /** Idempotent. */
  end(): void;
}

/** Aborts its signal with SERVER_UNREACHABLE after the time, unless it is ended before. */
export function timeLimit(ms: number, clock: ClientClock): TimeLimit {
  const late = new AbortController();
  const done = new AbortController();
  if (ms > 0) {
    const error = new WavepoolError('SERVER_UNREACHABLE', `no answer within ${ms} ms`);
    // It rejects when it is ended.
    void clock.sleep(ms, done.signal).then(
      () => late.abort(error),
      () => undefined,
    );
  }
  return { signal: late.signal, end: () => done.abort() };
}

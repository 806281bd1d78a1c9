import { randomUUID } from 'node:crypto';
import { failureToError, WavepoolError } from '../core/errors.ts';
import {
  CancelResource,
  type FailureResource,
  JobPage,
  type JobRequestBody,
  JobResource,
  type JobState,
} from '../core/http/api.ts';
import type { ServiceEvent } from '../core/http/events.ts';
import type { OmitEach } from '../core/job/job.ts';
import {
  asSpeechActivity,
  asTranscript,
  JobResult,
  type SpeechActivity,
  type Transcript,
} from '../core/results/job-result.ts';
import type { ResultFormat } from '../core/results/result-formats.ts';
import { answerAs, itemsOfPages } from './answers.ts';
import type { AudioSource } from './audio-source.ts';
import type { EventFeed } from './event-feed.ts';
import { type FollowOptions, jobEvents } from './events.ts';
import { apiPath, type CallOptions, type Transport } from './transport.ts';
import type { Uploads } from './uploads.ts';

export type InputDetails = Pick<JobRequestBody['input'], 'name' | 'rawFormat'>;

/** Exactly one of these. */
export type JobSource =
  /** Sent to the server first: see `Uploads.create`. */
  | { readonly file: AudioSource }
  | { readonly uploadId: string }
  /** Fetched by the worker when it gets to the job. */
  | { readonly url: string }
  /** A file of the server, inside its input roots. */
  | { readonly serverPath: string }
  /** `s3://BUCKET/KEY`, below an object root of server and worker. */
  | { readonly object: string };

export interface JobFilter {
  readonly state?: JobState | undefined;
  readonly model?: string | undefined;
  readonly tenant?: string | undefined;
  /** Asked for at once, at most 200. @defaultValue 50 */
  readonly pageSize?: number | undefined;
}

/** A job to submit; everything but its source has a default. */
export type ClientJob = OmitEach<JobRequestBody, 'input'> & InputDetails & JobSource;

export interface SubmitOptions extends CallOptions {
  /** The same key and job give the same job. @defaultValue random, so that a repeated request adds nothing */
  readonly idempotencyKey?: string | undefined;
}

export interface ResultOptions extends CallOptions {
  /** Of JSON: read it where it is stored, if the server has object storage. @defaultValue false */
  readonly direct?: boolean | undefined;
}

/** How a job ended well; where its result lies is the server's own matter. */
export type ClientOutcome = NonNullable<JobResource['outcome']>;

/** The jobs of a server: adds, reads, watches, cancels and retries them. */
export class Jobs {
  readonly #transport: Transport;
  readonly #uploads: Uploads;

  constructor(transport: Transport, uploads: Uploads) {
    this.#transport = transport;
    this.#uploads = uploads;
  }

  /**
   * Adds a job, after its file was sent.
   * @throws {WavepoolError} INVALID_REQUEST, MODEL_UNKNOWN, QUEUE_FULL, IDEMPOTENCY_CONFLICT, INPUT_FORBIDDEN; see
   *   `Uploads.create`
   */
  async submit(job: ClientJob, options: SubmitOptions = {}): Promise<JobResource> {
    const { idempotencyKey = randomUUID(), signal } = options;
    const input = await inputOf(job, this.#uploads, signal);
    return this.#transport.send(
      {
        method: 'POST',
        path: '/v1/jobs',
        json: { ...splitJob(job).settings, input },
        headers: { 'idempotency-key': idempotencyKey },
        idempotent: true,
        signal,
      },
      answerAs(JobResource),
    );
  }

  /** Undefined when the server does not know the job, or no longer. */
  async get(id: string, { signal }: CallOptions = {}): Promise<JobResource | undefined> {
    const request = { method: 'GET', path: apiPath`/v1/jobs/${id}`, signal } as const;
    try {
      return await this.#transport.send(request, answerAs(JobResource));
    } catch (error) {
      if (error instanceof WavepoolError && error.code === 'JOB_NOT_FOUND') return undefined;
      throw error;
    }
  }

  /** Jobs of all queues, asked for page by page while the caller goes on. */
  async *list(
    filter: JobFilter = {},
    options: CallOptions = {},
  ): AsyncGenerator<JobResource, void> {
    yield* itemsOfPages((cursor) => this.listPage({ ...filter, cursor }, options));
  }

  /** One page; `cursor` is the `nextCursor` of the page before. */
  async listPage(
    filter: JobFilter & { readonly cursor?: string | undefined } = {},
    { signal }: CallOptions = {},
  ): Promise<JobPage> {
    const { pageSize: limit, ...rest } = filter;
    const query = { ...rest, limit };
    const request = { method: 'GET', path: '/v1/jobs', query, signal } as const;
    return this.#transport.send(request, answerAs(JobPage));
  }

  /**
   * The transcript of a completed job, or its result in one of the other formats of its task.
   * @throws {WavepoolError} JOB_NOT_FOUND, JOB_NOT_FINISHED, RESULT_NOT_FOUND; INVALID_REQUEST for a format that the task does
   *   not have, or when there is no transcript because the job is of another task
   */
  async result(id: string, format?: 'json', options?: ResultOptions): Promise<Transcript>;
  async result(
    id: string,
    format: Exclude<ResultFormat, 'json'>,
    options?: CallOptions,
  ): Promise<string>;
  async result(
    id: string,
    format: ResultFormat = 'json',
    { signal, direct }: ResultOptions = {},
  ): Promise<Transcript | string> {
    if (format === 'json') return asTranscript(await this.#result(id, signal, direct));
    const path = apiPath`/v1/jobs/${id}/result`;
    const request = { method: 'GET', path, query: { format }, signal } as const;
    return this.#transport.send(request, (response) => response.text());
  }

  /**
   * The speech segments of a completed job of the task `vad`.
   * @throws {WavepoolError} JOB_NOT_FOUND, JOB_NOT_FINISHED, RESULT_NOT_FOUND; INVALID_REQUEST when the job is of another task
   */
  async speech(id: string, { signal }: CallOptions = {}): Promise<SpeechActivity> {
    return asSpeechActivity(await this.#result(id, signal));
  }

  async #result(id: string, signal: AbortSignal | undefined, direct = false): Promise<JobResult> {
    const path = apiPath`/v1/jobs/${id}/result`;
    const query = { format: 'json', ...(direct ? { redirect: true } : {}) };
    const request = { method: 'GET', path, query, signal } as const;
    return this.#transport.send(request, answerAs(JobResult));
  }

  /**
   * Ends a waiting job at once and has a running one stopped; `purge` also forgets job, transcript and upload.
   * @throws {WavepoolError} JOB_NOT_FOUND
   */
  async cancel(
    id: string,
    { purge = false, signal }: CallOptions & { readonly purge?: boolean | undefined } = {},
  ): Promise<CancelResource> {
    return this.#transport.send(
      { method: 'DELETE', path: apiPath`/v1/jobs/${id}`, query: { purge }, signal },
      answerAs(CancelResource),
    );
  }

  /**
   * Runs a failed or cancelled job once more from the beginning.
   * @throws {WavepoolError} JOB_NOT_FOUND, JOB_NOT_RETRYABLE
   */
  async retry(id: string, { signal }: CallOptions = {}): Promise<JobResource> {
    return this.#transport.send(
      { method: 'POST', path: apiPath`/v1/jobs/${id}/retry`, signal },
      answerAs(JobResource),
    );
  }

  /**
   * What happens to a job, from how it stands (`job.snapshot`) to its end (`job.completed`, `job.failed`, `job.removed`). Goes
   * on by itself where it was when the connection breaks.
   * @throws {WavepoolError} JOB_NOT_FOUND; see `EventFeed`
   */
  events(id: string, options: FollowOptions = {}): EventFeed<ServiceEvent> {
    return jobEvents(this.#transport, id, options);
  }

  /**
   * Waits for a job to end, whenever it does or did.
   * @throws {WavepoolError} with the code of the job's failure; JOB_NOT_FOUND; the signal's reason when it aborts
   */
  async waitFor(id: string, { signal }: CallOptions = {}): Promise<ClientOutcome> {
    for await (const event of this.events(id, { signal })) {
      if (event.type === 'job.completed') return event.outcome;
      if (event.type === 'job.failed') throw errorOfFailure(event.failure);
      if (event.type === 'job.removed') break;
    }
    throw new WavepoolError('JOB_NOT_FOUND', id);
  }
}

/** A newer server may have codes that this client does not know: those are INTERNAL, and the text is kept. */
function errorOfFailure({ code, message }: FailureResource): WavepoolError {
  return failureToError(`${code}: ${message}`);
}

/** The input of a request, after its file was sent. */
export async function inputOf(
  source: JobSource & InputDetails,
  uploads: Uploads,
  signal: AbortSignal | undefined,
): Promise<JobRequestBody['input']> {
  const { file, input } = splitJob(source);
  if (file === undefined) return input;
  const upload = await uploads.create(file, { name: input.name, signal });
  return { ...input, uploadId: upload.id, name: upload.name };
}

/** Where the audio is, and everything else. Callers without types may give no source or several: the server says so. */
function splitJob<Job extends JobSource & InputDetails>(job: Job) {
  const { file, uploadId, url, serverPath, object, name, rawFormat, ...settings } = {
    file: undefined,
    uploadId: undefined,
    url: undefined,
    serverPath: undefined,
    object: undefined,
    ...job,
  };
  return { file, input: { path: serverPath, uploadId, url, object, name, rawFormat }, settings };
}

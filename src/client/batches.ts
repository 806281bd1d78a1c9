import { randomUUID } from 'node:crypto';
import { WavepoolError } from '../core/errors.ts';
import type { JobRequestBody } from '../core/http/api.ts';
import {
  BatchItemPage,
  type BatchItemResource,
  BatchPageResource,
  BatchResource,
  BatchResultLine,
  BatchRetryResource,
  BatchSubmission,
} from '../core/http/batch-api.ts';
import type { ServiceEvent } from '../core/http/events.ts';
import type { OmitEach } from '../core/job/job.ts';
import { parseLeniently } from '../core/lenient-parse.ts';
import type { ResultFormat } from '../core/results/result-formats.ts';
import type { BatchWebhookBody } from '../core/webhook.ts';
import { answerAs, itemsOfPages, readLines } from './answers.ts';
import type { EventFeed } from './event-feed.ts';
import { batchEvents, type FollowOptions } from './events.ts';
import {
  type InputDetails,
  inputOf,
  type JobFilter,
  type JobSource,
  type SubmitOptions,
} from './jobs.ts';
import { apiPath, type CallOptions, type Transport } from './transport.ts';
import type { Uploads } from './uploads.ts';

/** What all jobs of a batch have in common; everything has a default. */
export type BatchJobSettings = OmitEach<JobRequestBody, 'input' | 'webhook'> & {
  readonly name?: string;
  readonly webhook?: BatchWebhookBody;
};

/** Many inputs, or a folder of the server inside its input roots with all it holds. */
export type ClientBatch = BatchJobSettings &
  ({ readonly inputs: readonly (JobSource & InputDetails)[] } | { readonly directory: string });

export interface BatchFilter extends Pick<JobFilter, 'tenant' | 'pageSize'> {
  readonly state?: BatchResource['state'] | undefined;
}

export interface WaitForBatchOptions extends CallOptions {
  /** Between two looks. @defaultValue 2 000 */
  readonly intervalMs?: number | undefined;
}

const LINES_TYPE = 'application/x-ndjson';
/** Files of a batch that are sent at a time. */
const UPLOADS_AT_ONCE = 4;

/** Many jobs as one thing. */
export class Batches {
  readonly #transport: Transport;
  readonly #uploads: Uploads;

  constructor(transport: Transport, uploads: Uploads) {
    this.#transport = transport;
    this.#uploads = uploads;
  }

  /**
   * Adds all jobs, after their files were sent. With the same `idempotencyKey` and batch, a submission that broke off goes
   * on where it stopped.
   * @throws {WavepoolError} INVALID_REQUEST, MODEL_UNKNOWN, QUEUE_FULL, IDEMPOTENCY_CONFLICT, INPUT_FORBIDDEN; see
   *   `Uploads.create`
   */
  async submit(batch: ClientBatch, options: SubmitOptions = {}): Promise<BatchSubmission> {
    const { idempotencyKey = randomUUID(), signal } = options;
    const content =
      'inputs' in batch ? { text: await this.#lines(batch, signal) } : { json: batch };
    return this.#transport.send(
      {
        method: 'POST',
        path: '/v1/batches',
        ...content,
        headers: { 'idempotency-key': idempotencyKey },
        idempotent: true,
        // The answer comes when all jobs have been added.
        timeoutMs: 0,
        signal,
      },
      answerAs(BatchSubmission),
    );
  }

  /** Undefined when the server does not know the batch, or no longer. */
  async get(id: string, { signal }: CallOptions = {}): Promise<BatchResource | undefined> {
    const request = { method: 'GET', path: apiPath`/v1/batches/${id}`, signal } as const;
    try {
      return await this.#transport.send(request, answerAs(BatchResource));
    } catch (error) {
      if (error instanceof WavepoolError && error.code === 'BATCH_NOT_FOUND') return undefined;
      throw error;
    }
  }

  /** The latest first, asked for page by page while the caller goes on. */
  async *list(
    filter: BatchFilter = {},
    { signal }: CallOptions = {},
  ): AsyncGenerator<BatchResource> {
    const { pageSize: limit, ...rest } = filter;
    yield* itemsOfPages((cursor) => {
      const query = { ...rest, limit, cursor };
      const request = { method: 'GET', path: '/v1/batches', query, signal } as const;
      return this.#transport.send(request, answerAs(BatchPageResource));
    });
  }

  /**
   * The items of a batch in the order of submission, asked for page by page while the caller goes on.
   * @throws {WavepoolError} BATCH_NOT_FOUND
   */
  async *items(
    id: string,
    { pageSize: limit, state }: Pick<JobFilter, 'state' | 'pageSize'> = {},
    { signal }: CallOptions = {},
  ): AsyncGenerator<BatchItemResource> {
    const path = apiPath`/v1/batches/${id}/items`;
    yield* itemsOfPages((cursor) => {
      const query = { state, limit, cursor };
      const request = { method: 'GET', path, query, signal } as const;
      return this.#transport.send(request, answerAs(BatchItemPage));
    });
  }

  /**
   * The results of all items that have ended, as they arrive: failures come in their places.
   * @param as format of the texts, txt or json by the batch's task when left out; with `json` a line has a `transcript` or
   *   `speech` instead
   * @throws {WavepoolError} BATCH_NOT_FOUND, INVALID_REQUEST for a format that the task does not have; SERVER_UNREACHABLE when the stream breaks off
   */
  async *results(
    id: string,
    as?: ResultFormat,
    { signal }: CallOptions = {},
  ): AsyncGenerator<BatchResultLine> {
    const response = await this.#results(id, 'ndjson', as, signal);
    for await (const line of readLines(response, signal)) {
      yield parseLeniently(BatchResultLine, line, 'result');
    }
  }

  /**
   * The results of completed items as a ZIP archive.
   * @throws {WavepoolError} BATCH_NOT_FOUND, INVALID_REQUEST for a format that the task does not have
   */
  async archive(
    id: string,
    as?: ResultFormat,
    { signal }: CallOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const { body } = await this.#results(id, 'zip', as, signal);
    if (body === null) throw new WavepoolError('INTERNAL', 'the server sent no archive');
    return body;
  }

  /**
   * Ends waiting items at once and has running ones stopped.
   * @throws {WavepoolError} BATCH_NOT_FOUND
   */
  async cancel(id: string, { signal }: CallOptions = {}): Promise<BatchResource> {
    const request = { method: 'DELETE', path: apiPath`/v1/batches/${id}`, signal } as const;
    return this.#transport.send(request, answerAs(BatchResource));
  }

  /**
   * Runs failed items once more; with `cancelled` also those that were cancelled.
   * @throws {WavepoolError} BATCH_NOT_FOUND
   */
  async retry(
    id: string,
    { cancelled = false, signal }: CallOptions & { readonly cancelled?: boolean | undefined } = {},
  ): Promise<BatchRetryResource> {
    const path = apiPath`/v1/batches/${id}/retry`;
    const request = { method: 'POST', path, query: { cancelled }, signal } as const;
    return this.#transport.send(request, answerAs(BatchRetryResource));
  }

  /**
   * What happens to a batch, from how it stands (`batch.snapshot`) until all its items have ended (`batch.finished`). Goes on
   * by itself where it was when the connection breaks.
   * @throws {WavepoolError} BATCH_NOT_FOUND; see `EventFeed`
   */
  events(id: string, options: FollowOptions = {}): EventFeed<ServiceEvent> {
    return batchEvents(this.#transport, id, options);
  }

  /**
   * Waits until all items have ended, however they did: see `counts`.
   * @throws {WavepoolError} BATCH_NOT_FOUND; the signal's reason when it aborts
   */
  async waitFor(id: string, options: WaitForBatchOptions = {}): Promise<BatchResource> {
    const { intervalMs = 2_000, signal } = options;
    for (;;) {
      const batch = await this.get(id, { signal });
      if (batch === undefined) throw new WavepoolError('BATCH_NOT_FOUND', id);
      if (batch.state !== 'open' && batch.counts.waiting + batch.counts.running === 0) return batch;
      await this.#transport.pause(intervalMs, signal);
    }
  }

  #results(
    id: string,
    format: 'ndjson' | 'zip',
    as: ResultFormat | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Response> {
    const path = apiPath`/v1/batches/${id}/results`;
    const request = { method: 'GET', path, query: { format, as }, signal } as const;
    return this.#transport.send(request, (response) => Promise.resolve(response));
  }

  /** A line of settings and one for each input: of these there may be any number. */
  async #lines(
    { inputs, ...settings }: BatchJobSettings & { inputs: readonly (JobSource & InputDetails)[] },
    signal: AbortSignal | undefined,
  ) {
    const lines = [JSON.stringify({ batch: settings })];
    for (let start = 0; start < inputs.length; start += UPLOADS_AT_ONCE) {
      const some = inputs.slice(start, start + UPLOADS_AT_ONCE);
      const sent = await Promise.all(some.map((input) => inputOf(input, this.#uploads, signal)));
      lines.push(...sent.map((input) => JSON.stringify(input)));
    }
    return { type: LINES_TYPE, content: `${lines.join('\n')}\n` };
  }
}

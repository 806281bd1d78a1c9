/**
 * The HTTP client of a Wavepool server. Importing it loads neither a Redis client nor native code.
 *
 * @module wavepool/client
 */
import { WavepoolError } from '../core/errors.ts';
import type { ServiceEvent } from '../core/http/events.ts';
import type { LiveEvent } from '../core/live/live-api.ts';
import { ApiKeys } from './api-keys.ts';
import type { AudioSource } from './audio-source.ts';
import { Batches } from './batches.ts';
import type { EventFeed } from './event-feed.ts';
import { type EventFilter, type FollowOptions, serviceEvents } from './events.ts';
import { Models, Workers } from './fleet.ts';
import { Jobs } from './jobs.ts';
import { type LiveOptions, liveEvents } from './live.ts';
import { Schedules, Tenants } from './tenants.ts';
import { type ClientClock, SYSTEM_CLOCK, Transport } from './transport.ts';
import { Uploads } from './uploads.ts';
import { Webhooks } from './webhooks.ts';

export interface WavepoolClientOptions {
  /** Of the server, such as `http://127.0.0.1:8080`; may have a path when a proxy gives it one. */
  readonly baseUrl: string | URL;
  /** Not needed on an open loopback server. */
  readonly apiKey?: string | undefined;
  /** @defaultValue the global one */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** For the whole answer to one request, uploads and events excepted; 0 = no limit. @defaultValue 30 000 */
  readonly timeoutMs?: number | undefined;
  /**
   * How often a request is sent again: after 429 and 503 with Retry-After, and where it does no harm after a broken
   * connection, too. @defaultValue 3
   */
  readonly maxRetries?: number | undefined;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly clock?: ClientClock | undefined;
  /** For pauses: 0 up to, but not including, 1. @defaultValue Math.random */
  readonly random?: (() => number) | undefined;
}

/**
 * Calls a Wavepool server. It holds nothing that must be closed.
 *
 * @example
 * const client = new WavepoolClient({ baseUrl: 'http://127.0.0.1:8080' });
 * const job = await client.jobs.submit({ file: 'interview.wav' });
 * await client.jobs.waitFor(job.id);
 * const text = await client.jobs.result(job.id, 'txt');
 */
export class WavepoolClient {
  readonly #transport: Transport;
  readonly jobs: Jobs;
  readonly batches: Batches;
  readonly uploads: Uploads;
  readonly models: Models;
  readonly workers: Workers;
  readonly webhooks: Webhooks;
  readonly tenants: Tenants;
  readonly schedules: Schedules;
  readonly keys: ApiKeys;

  /** @throws {WavepoolError} INVALID_REQUEST for an address or a key that cannot be sent */
  constructor(options: WavepoolClientOptions) {
    this.#transport = new Transport({
      baseUrl: parseBaseUrl(options.baseUrl),
      headers: headersOf(options),
      fetch: options.fetch ?? globalThis.fetch,
      timeoutMs: options.timeoutMs ?? 30_000,
      maxRetries: options.maxRetries ?? 3,
      clock: options.clock ?? SYSTEM_CLOCK,
      random: options.random ?? Math.random,
    });
    this.uploads = new Uploads(this.#transport);
    this.jobs = new Jobs(this.#transport, this.uploads);
    this.batches = new Batches(this.#transport, this.uploads);
    this.models = new Models(this.#transport);
    this.workers = new Workers(this.#transport);
    this.webhooks = new Webhooks(this.#transport);
    this.tenants = new Tenants(this.#transport);
    this.schedules = new Schedules(this.#transport);
    this.keys = new ApiKeys(this.#transport);
  }

  /**
   * Events of all queues as they happen, until the caller leaves the loop. Goes on by itself where it was when the
   * connection breaks; `stream.reset` tells where that was not possible.
   */
  events(filter: EventFilter = {}, options: FollowOptions = {}): EventFeed<ServiceEvent> {
    return serviceEvents(this.#transport, filter, options);
  }

  /**
   * Transcribes while somebody speaks: sends PCM as the source gives it, and tells what is said meanwhile. The last event is
   * `live.done`.
   * @throws {WavepoolError} in the loop: the code that ended the stream
   *
   * @example
   * for await (const event of client.live(process.stdin, { sampleRate: 48_000 })) {
   *   if (event.type === 'live.segment') console.log(event.text);
   * }
   */
  live(source: AudioSource, options: LiveOptions = {}): AsyncGenerator<LiveEvent, void> {
    return liveEvents(this.#transport, source, options);
  }
}

function parseBaseUrl(given: string | URL): URL {
  const text = String(given);
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new WavepoolError('INVALID_REQUEST', `baseUrl: ${text} is not an http(s) address`);
  }
  const url = new URL(text);
  url.search = '';
  url.hash = '';
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

function headersOf({ apiKey, headers }: WavepoolClientOptions): Headers {
  try {
    const all = new Headers({ accept: '*/*', ...headers });
    if (apiKey !== undefined) all.set('authorization', `Bearer ${apiKey}`);
    return all;
  } catch (cause) {
    // The cause's message would show the key.
    const name = cause instanceof Error ? cause.name : 'Error';
    throw new WavepoolError('INVALID_REQUEST', `apiKey or headers cannot be sent (${name})`);
  }
}

/**
 * Live audio on its way from a server to a worker that has a place for it, and what the worker hears in it on its way back.
 * The server chooses among those who say that they have places; the worker decides.
 */
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import type { LiveFormat, LiveTranscribeSettings } from '../../core/live/live.ts';
import type { LiveProgressEvent } from '../../core/live/live-api.ts';
import type { LiveFrame, LiveOpening } from '../../core/live/live-wire.ts';
import type { ModelStatus, WorkerPresence } from '../../core/worker/status.ts';
import { readPresence } from '../fleet/presence.ts';
import type { RedisAddress } from '../redis/connection.ts';
import { liveChannel } from '../redis/queue-names.ts';
import { LiveChannel } from './live-channel.ts';
import { RelayedStream } from './relayed-stream.ts';

export interface LiveRequest {
  /** Names the stream. */
  readonly id: string;
  readonly model: string;
  readonly format: LiveFormat;
  readonly options: LiveTranscribeSettings;
  /** Without audio for so long it ends with STREAM_IDLE; 0 = never. */
  readonly idleTimeoutMs: number;
  /** Ends the stream with its reason, and the wait for it. */
  readonly signal: AbortSignal;
  readonly onEvent: (event: LiveProgressEvent) => void;
}

/** A worker that says no for one of these may be followed by one that says yes. */
const ELSEWHERE: ReadonlySet<string> = new Set([
  'BUSY_TIMEOUT',
  'BUSY_OVERDUE',
  'QUEUE_FULL',
  'INSUFFICIENT_MEMORY',
  'MODEL_UNKNOWN',
  'SHUTTING_DOWN',
  'WORKER_GONE',
]);
/** Workers that are asked though they were full when they last spoke: a place may just have become free. */
const MOST_FULL_ASKED = 3;

export class LiveRelay {
  readonly #address: RedisAddress;
  readonly #connection: Redis;
  readonly #name = randomUUID();
  readonly #streams = new Map<string, RelayedStream>();
  #channel: Promise<LiveChannel> | undefined;
  #isClosed = false;

  /** @param connection for single commands; stays open for as long as this is used */
  constructor(address: RedisAddress, connection: Redis) {
    this.#address = address;
    this.#connection = connection;
  }

  /** Streams that are open here. */
  get size(): number {
    return this.#streams.size;
  }

  /**
   * Resolves when a worker listens.
   * @throws {WavepoolError} NO_WORKER, BUSY_TIMEOUT, OPTION_UNSUPPORTED, REDIS_UNAVAILABLE, or why the model could not be
   *   loaded; the signal's reason
   */
  async open(request: LiveRequest): Promise<RelayedStream> {
    const { model, signal } = request;
    const workers = workersFor(model, await readPresence(this.#connection));
    if (workers.length === 0) {
      throw new WavepoolError('NO_WORKER', `none takes live audio for ${model}`);
    }
    const channel = await this.#open();
    for (const { id } of workers) {
      signal.throwIfAborted();
      try {
        return await this.#openAt(id, request, channel);
      } catch (error) {
        if (!ELSEWHERE.has(toWavepoolError(error).code)) throw error;
      }
    }
    throw new WavepoolError('BUSY_TIMEOUT', `every live slot for ${model} is taken`);
  }

  /** Streams that are open end with SHUTTING_DOWN. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const reason = new WavepoolError('SHUTTING_DOWN', 'the server is ending');
    for (const stream of [...this.#streams.values()]) await stream.cancel(reason);
    const channel = await this.#channel?.catch(() => undefined);
    channel?.close();
  }

  async #openAt(
    worker: string,
    { id, model, format, options, idleTimeoutMs, signal, onEvent }: LiveRequest,
    channel: LiveChannel,
  ): Promise<RelayedStream> {
    const to = liveChannel(this.#connection, worker);
    const stream = new RelayedStream({ channel, id, to, format, signal, onEvent });
    this.#streams.set(id, stream);
    // It never rejects.
    void stream.closed.then(() => this.#streams.delete(id));
    const opening: LiveOpening = { replyTo: channel.name, model, format, options, idleTimeoutMs };
    await stream.open(opening);
    return stream;
  }

  #open(): Promise<LiveChannel> {
    if (this.#isClosed) throw new WavepoolError('SHUTTING_DOWN', 'the server is ending');
    this.#channel ??= LiveChannel.open({
      address: this.#address,
      listener: this.#name,
      onFrame: (frame) => this.#hear(frame),
      onLost: () => this.#lose(),
    }).catch((error: unknown) => {
      this.#channel = undefined;
      throw error;
    });
    return this.#channel;
  }

  #hear(frame: LiveFrame): void {
    this.#streams.get(frame.stream)?.hear(frame);
  }

  #lose(): void {
    const lost = new WavepoolError('REDIS_UNAVAILABLE', 'what the worker said was not heard');
    for (const stream of [...this.#streams.values()]) stream.fail(lost);
  }
}

/** Those with places first, the freest of them before the others. */
function workersFor(model: string, present: readonly WorkerPresence[]): readonly WorkerPresence[] {
  const able = present
    .filter(({ models }) => models.some(({ id }) => id === model))
    .flatMap((worker) => {
      const free = freePlaces(worker.runtime.models);
      return free === undefined ? [] : [{ worker, free, waiting: waitingFor(model, worker) }];
    })
    .toSorted((a, b) => b.free - a.free || a.waiting - b.waiting);
  const full = able.filter(({ free }) => free === 0).slice(0, MOST_FULL_ASKED);
  return [...able.filter(({ free }) => free > 0), ...full].map(({ worker }) => worker);
}

/** Undefined for a worker that takes no live streams. */
function freePlaces(models: readonly ModelStatus[]): number | undefined {
  const detectors = models.filter(({ mode }) => mode === 'streaming');
  if (detectors.length === 0) return undefined;
  return detectors.reduce((sum, { slots, activeSlots }) => sum + slots - activeSlots, 0);
}

function waitingFor(model: string, { runtime }: WorkerPresence): number {
  return runtime.models.find(({ id }) => id === model)?.batches.queuedSeconds ?? 0;
}

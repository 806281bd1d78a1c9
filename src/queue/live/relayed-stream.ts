/** One live stream as its server sees it: audio goes out no faster than the worker takes it, words come back. */

import { WavepoolError } from '../../core/errors.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { bytesPerSecond, type LiveFormat } from '../../core/live/live.ts';
import type { LiveProgressEvent } from '../../core/live/live-api.ts';
import {
  type LiveFrame,
  type LiveOpening,
  LiveWord,
  liveWindowBytes,
} from '../../core/live/live-wire.ts';
import type { LiveChannel } from './live-channel.ts';
import { LivePeer } from './live-peer.ts';

/** Of one message. */
const MOST_AUDIO_BYTES = 64 * 1024;
/** A worker that must load the model first gets so long. */
const OPEN_TIMEOUT_MS = 120_000;

export interface RelayedSummary {
  readonly durationSeconds: number;
  readonly speechSeconds: number;
  readonly segments: number;
}

export interface RelayedStreamOptions {
  readonly channel: LiveChannel;
  readonly id: string;
  readonly to: string;
  readonly format: LiveFormat;
  readonly signal: AbortSignal;
  readonly onEvent: (event: LiveProgressEvent) => void;
}

/** Resolved or rejected from outside. */
class Latch<Value> {
  readonly promise: Promise<Value>;
  resolve: (value: Value) => void = () => undefined;
  reject: (error: WavepoolError) => void = () => undefined;

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // Whoever waits sees the failure; nobody has to.
    this.promise.catch(() => undefined);
  }
}

export class RelayedStream {
  readonly id: string;
  readonly #options: RelayedStreamOptions;
  readonly #peer: LivePeer;
  readonly #window: number;
  readonly #opened = new Latch<void>();
  readonly #ended = new Latch<RelayedSummary>();
  #sentBytes = 0;
  #takenBytes = 0;
  #room = new Latch<void>();
  #failure: WavepoolError | undefined;
  #isOver = false;

  constructor(options: RelayedStreamOptions) {
    const { channel, id, to, format, signal } = options;
    this.#options = options;
    this.id = id;
    this.#window = liveWindowBytes(bytesPerSecond(format));
    // The worker may be there all the same, and would else listen on for some seconds.
    const onGone = (error: WavepoolError): void => void this.cancel(error);
    this.#peer = new LivePeer({ channel, stream: id, to, onGone });
    signal.addEventListener('abort', this.#onAbort);
  }

  /** @throws {WavepoolError} what ended the stream instead of `finish` */
  get ended(): Promise<RelayedSummary> {
    return this.#ended.promise;
  }

  /** Resolves, never rejects, at the end. */
  get closed(): Promise<void> {
    const done = (): void => undefined;
    return this.#ended.promise.then(done, done);
  }

  /** Call first. @throws {WavepoolError} why there is no stream */
  async open(opening: LiveOpening): Promise<void> {
    const late = setTimeout(() => {
      void this.cancel(new WavepoolError('BUSY_TIMEOUT', 'the worker did not begin in time'));
    }, OPEN_TIMEOUT_MS);
    try {
      this.#peer.tell('open', Buffer.from(JSON.stringify(opening)));
      if (this.#options.signal.aborted) this.#onAbort();
      await this.#opened.promise;
    } finally {
      clearTimeout(late);
    }
  }

  /**
   * Resolves when the worker has room for more. One call at a time.
   * @throws {WavepoolError} what ended the stream
   */
  async send(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += MOST_AUDIO_BYTES) {
      const piece = bytes.subarray(at, at + MOST_AUDIO_BYTES);
      while (this.#sentBytes + piece.length - this.#takenBytes > this.#window) {
        if (this.#failure) throw this.#failure;
        this.#room = new Latch();
        await this.#room.promise;
      }
      if (this.#failure) throw this.#failure;
      this.#sentBytes += piece.length;
      this.#peer.tell('audio', piece);
    }
  }

  /** The audio has ended. Resolves when all segments have been told. @throws {WavepoolError} what ended the stream instead */
  async finish(): Promise<RelayedSummary> {
    if (!this.#isOver) this.#peer.tell('end');
    return this.#ended.promise;
  }

  /** The worker's slot is free as soon as it hears of it. Idempotent. */
  async cancel(error: WavepoolError): Promise<void> {
    if (this.#isOver) return;
    const told = this.#peer.send('cancel').catch(() => undefined);
    this.fail(error);
    await told;
  }

  /** Without telling the worker. Idempotent. */
  fail(error: WavepoolError): void {
    if (this.#isOver) return;
    this.#failure = error;
    this.#close();
    this.#opened.reject(error);
    this.#room.reject(error);
    this.#ended.reject(error);
  }

  hear(frame: LiveFrame): void {
    if (!this.#peer.take(frame) || frame.kind !== 'word') return;
    const text = Buffer.from(frame.payload).toString('utf8');
    const word = LiveWord.safeParse(parseJson(text));
    if (word.success) this.#obey(word.data);
    else void this.cancel(new WavepoolError('INTERNAL', 'the worker speaks another version'));
  }

  #obey(word: LiveWord): void {
    switch (word.type) {
      case 'opened':
        this.#opened.resolve();
        return;
      case 'taken':
        this.#takenBytes = word.bytes;
        this.#room.resolve();
        return;
      case 'event':
        this.#options.onEvent(word.event);
        return;
      case 'done': {
        const { type: _, ...summary } = word;
        this.#close();
        this.#ended.resolve(summary);
        return;
      }
      case 'failed':
        this.fail(new WavepoolError(word.code, word.detail));
        return;
      default:
        word satisfies never;
    }
  }

  #close(): void {
    this.#isOver = true;
    this.#peer.stop();
    this.#options.signal.removeEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = (): void => {
    const { reason } = this.#options.signal;
    const cancelled = new WavepoolError('CANCELLED', 'the client has gone');
    void this.cancel(reason instanceof WavepoolError ? reason : cancelled);
  };
}

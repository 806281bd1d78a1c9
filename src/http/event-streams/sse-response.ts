/** A response that is a stream of server-sent events. It buffers a bounded number of bytes for a client that reads slowly. */
import { once } from 'node:events';
import type { Request, Response } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { type Every, HEARTBEAT_MS } from '../events/event-broadcaster.ts';

export interface SseOptions {
  readonly req: Request;
  readonly res: Response;
  /** Ends the stream. */
  readonly signal: AbortSignal;
  /** A client that leaves more than this unread is disconnected. */
  readonly maxBufferedBytes: number;
  readonly logger: Logger;
}

/** Tells browsers how soon to reconnect. */
export const RETRY_HINT = 'retry: 2000\n';
export const HEARTBEAT = ': heartbeat\n\n';

export class SseResponse {
  readonly #options: SseOptions;
  readonly #ended = new AbortController();
  #isOpen = false;

  constructor(options: SseOptions) {
    this.#options = options;
    const { res, signal } = options;
    res.once('close', () => this.#ended.abort());
    signal.addEventListener('abort', () => this.end());
    if (signal.aborted) this.#ended.abort();
  }

  /** Aborts when nothing can be written any more. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /**
   * Sends the headers. Until then an error can still be answered with a problem.
   * @throws {WavepoolError} SHUTTING_DOWN when the stream was ended before
   */
  open(): void {
    const { req, res } = this.#options;
    if (this.#ended.signal.aborted)
      throw new WavepoolError('SHUTTING_DOWN', 'the stream has ended');
    this.#isOpen = true;
    res.status(200).set({
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-cache, no-transform',
      // Without this header proxies would collect events before they pass them on.
      'X-Accel-Buffering': 'no',
    });
    res.flushHeaders();
    if (req.method === 'HEAD') this.end();
  }

  /** Disconnects a client that has not yet read enough of what was written before. */
  write(chunk: string | Buffer): void {
    const { res, maxBufferedBytes, logger } = this.#options;
    if (this.#ended.signal.aborted || chunk.length === 0) return;
    const { writableLength: bufferedBytes } = res;
    if (bufferedBytes <= maxBufferedBytes) {
      res.write(chunk);
      return;
    }
    logger.info({ bufferedBytes }, 'a slow reader of events is cut off');
    this.disconnect();
  }

  /** Writes heartbeats from now on. Returns a function that ends them. */
  startHeartbeats(every: Every): () => void {
    return every(HEARTBEAT_MS, () => this.write(HEARTBEAT));
  }

  /** Resolves when the client has taken what was written, or has gone. */
  async drained(): Promise<void> {
    const { res } = this.#options;
    if (!res.writableNeedDrain || this.#ended.signal.aborted) return;
    await once(res, 'drain', { signal: this.#ended.signal }).catch(() => undefined);
  }

  /** Breaks the connection without a proper end, so that the client knows that there is more. */
  disconnect(): void {
    this.#ended.abort();
    this.#options.res.destroy();
  }

  /** Idempotent. */
  end(): void {
    this.#ended.abort();
    if (this.#isOpen) this.#options.res.end();
  }

  /** Resolves when the stream has ended. */
  async whenEnded(): Promise<void> {
    if (!this.#ended.signal.aborted) await once(this.#ended.signal, 'abort');
  }
}

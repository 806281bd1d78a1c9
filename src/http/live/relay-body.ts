/** One live stream: the body of the request goes to a worker, and the worker's events go to the client. */
import { once } from 'node:events';
import type { Request, Response } from 'express';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import type { LiveEvent, LiveProgressEvent } from '../../core/live/live-api.ts';
import type { RelayedStream } from '../../queue/live/relayed-stream.ts';
import type { SseResponse } from '../event-streams/sse-response.ts';
import { onBrokenBody } from '../request/broken-requests.ts';
import type { Services } from '../services.ts';

/** How long the last event may take to be sent. */
const FLUSH_MS = 5_000;

export interface RelayOptions {
  readonly req: Request;
  readonly res: Response;
  readonly client: SseResponse;
  readonly services: Services;
  readonly model: string;
}

/** Writes the events of a live stream to the client, and collects the text of the segments. */
export class LiveEventWriter {
  readonly #client: SseResponse;
  readonly #texts: string[] = [];

  constructor(client: SseResponse) {
    this.#client = client;
  }

  /** The text of all segments so far. */
  get text(): string {
    return this.#texts.join(' ');
  }

  writeProgress(event: LiveProgressEvent): void {
    if (event.type === 'live.segment' && event.text !== '') this.#texts.push(event.text);
    this.write(event);
  }

  write(event: LiveEvent): void {
    this.#client.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  }

  writeFailure({ code, type, message, retryable }: WavepoolError): void {
    this.write({ type: 'live.failed', error: { code, type, message, retryable } });
  }
}

/** Resolves when the response has ended. A failure is sent as its last event. */
export async function relayBody(
  stream: RelayedStream,
  writer: LiveEventWriter,
  { req, res, client, services, model }: RelayOptions,
): Promise<void> {
  const { liveMaxMs } = services.settings;
  res.set('Connection', 'close');
  client.open();
  writer.write({ type: 'live.opened', id: stream.id, model });
  const stopHeartbeats = client.startHeartbeats(services.every);
  const stopListening = onBrokenBody(req.socket, (why) => {
    void stream.cancel(new WavepoolError('STREAM_BROKEN', why));
  });
  const limit = limitOf(stream, liveMaxMs);
  try {
    const sending = sendBody(req, stream, client);
    // When the worker ends the stream, its reason counts, whatever happens to the body.
    await Promise.race([sending, stream.ended]);
    const summary = await stream.ended;
    writer.write({ type: 'live.done', text: writer.text, ...summary });
  } catch (error) {
    const failure = toWavepoolError(error);
    await stream.cancel(failure);
    writer.writeFailure(failure);
  } finally {
    clearTimeout(limit);
    stopHeartbeats();
    client.end();
    await flushed(res);
    stopListening();
    // Nobody reads the rest of the body, so the connection is closed.
    req.socket.destroySoon();
  }
}

function limitOf(stream: RelayedStream, liveMaxMs: number): NodeJS.Timeout | undefined {
  if (liveMaxMs === 0) return undefined;
  const tooLong = new WavepoolError('STREAM_TOO_LONG', `${liveMaxMs} ms`);
  return setTimeout(() => void stream.cancel(tooLong), liveMaxMs);
}

/** Sends the body no faster than the worker takes it and the client reads its events. */
async function sendBody(req: Request, stream: RelayedStream, client: SseResponse): Promise<void> {
  try {
    for await (const chunk of req.iterator({ destroyOnReturn: false })) {
      await client.drained();
      await stream.send(chunk);
    }
  } catch (error) {
    if (error instanceof WavepoolError) throw error;
    throw new WavepoolError('STREAM_BROKEN', 'the connection broke off', { cause: error });
  }
  // A chunked body that stopped without its last chunk is not complete.
  if (!req.complete) throw new WavepoolError('STREAM_BROKEN', 'it ended before its last chunk');
  await stream.finish();
}

/** Waits until the response was sent. A client that does not read it in time is disconnected. */
async function flushed(res: Response): Promise<void> {
  if (res.writableFinished || res.destroyed) return;
  const signal = AbortSignal.timeout(FLUSH_MS);
  await Promise.race([once(res, 'finish', { signal }), once(res, 'close', { signal })]).catch(() =>
    res.destroy(),
  );
}

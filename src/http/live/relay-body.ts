/** One live stream of a client: its body goes to a worker, what the worker hears comes back as events. */
import { once } from 'node:events';
import type { Request, Response } from 'express';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import type { LiveEvent, LiveProgressEvent } from '../../core/live/live-api.ts';
import type { RelayedStream } from '../../queue/live/relayed-stream.ts';
import type { SseResponse } from '../event-streams/sse-response.ts';
import { onBrokenBody } from '../request/broken-requests.ts';
import type { Services } from '../services.ts';

/** For the last event to leave. */
const LAST_WORDS_MS = 5_000;

export interface RelayOptions {
  readonly req: Request;
  readonly res: Response;
  readonly client: SseResponse;
  readonly services: Services;
  readonly model: string;
}

/** The text that has been told so far. */
export class LiveTale {
  readonly #client: SseResponse;
  readonly #texts: string[] = [];

  constructor(client: SseResponse) {
    this.#client = client;
  }

  get text(): string {
    return this.#texts.join(' ');
  }

  progress(event: LiveProgressEvent): void {
    if (event.type === 'live.segment' && event.text !== '') this.#texts.push(event.text);
    this.tell(event);
  }

  tell(event: LiveEvent): void {
    this.#client.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  }

  fail({ code, type, message, retryable }: WavepoolError): void {
    this.tell({ type: 'live.failed', error: { code, type, message, retryable } });
  }
}

/** Resolves when the response has ended; failures are told in it. */
export async function relayBody(
  stream: RelayedStream,
  tale: LiveTale,
  { req, res, client, services, model }: RelayOptions,
): Promise<void> {
  const { liveMaxMs } = services.settings;
  res.set('Connection', 'close');
  client.open();
  tale.tell({ type: 'live.opened', id: stream.id, model });
  const stopBeating = client.startHeartbeats(services.every);
  const stopListening = onBrokenBody(req.socket, (why) => {
    void stream.cancel(new WavepoolError('STREAM_BROKEN', why));
  });
  const limit = limitOf(stream, liveMaxMs);
  try {
    const sending = sendBody(req, stream, client);
    // What the worker says of the stream comes before what becomes of the body.
    await Promise.race([sending, stream.ended]);
    const summary = await stream.ended;
    tale.tell({ type: 'live.done', text: tale.text, ...summary });
  } catch (error) {
    const failure = toWavepoolError(error);
    await stream.cancel(failure);
    tale.fail(failure);
  } finally {
    clearTimeout(limit);
    stopBeating();
    client.end();
    await flushed(res);
    stopListening();
    // Nobody reads what the client may still send.
    req.socket.destroySoon();
  }
}

function limitOf(stream: RelayedStream, liveMaxMs: number): NodeJS.Timeout | undefined {
  if (liveMaxMs === 0) return undefined;
  const tooLong = new WavepoolError('STREAM_TOO_LONG', `${liveMaxMs} ms`);
  return setTimeout(() => void stream.cancel(tooLong), liveMaxMs);
}

/** No faster than the worker takes it, and no further than the client reads what it is told. */
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
  // Without its end, a body that has stopped is not whole.
  if (!req.complete) throw new WavepoolError('STREAM_BROKEN', 'it ended before its last chunk');
  await stream.finish();
}

/** A client that does not read its end is left without it. */
async function flushed(res: Response): Promise<void> {
  if (res.writableFinished || res.destroyed) return;
  const signal = AbortSignal.timeout(LAST_WORDS_MS);
  await Promise.race([once(res, 'finish', { signal }), once(res, 'close', { signal })]).catch(() =>
    res.destroy(),
  );
}

/** Live audio: it is transcribed while it is being recorded. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Request, Response } from 'express';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { TranscribeOptions } from '../../core/job/job.ts';
import {
  type LiveFormat,
  type LiveTranscribeSettings,
  parseLiveTranscribeSettings,
} from '../../core/live/live.ts';
import { LiveEvent, type LiveProgressEvent, LiveQuery } from '../../core/live/live-api.ts';
import type { RelayedStream } from '../../queue/live/relayed-stream.ts';
import type { Caller } from '../auth/caller.ts';
import { SseResponse } from '../event-streams/sse-response.ts';
import { onBrokenBody } from '../request/broken-requests.ts';
import { type RouteRequest, route, STREAMED } from '../request/route.ts';
import type { Services } from '../services.ts';
import { modelNamed, queueForTask } from '../submit/task-queue.ts';

const transcribeLive = route({
  method: 'post',
  path: '/v1/audio/transcriptions/live',
  name: 'transcribeLive',
  tag: 'live',
  summary: 'Transcribe audio while it is being recorded',
  description:
    'The body is PCM without a header, as the query says, sent in chunks (`Transfer-Encoding: chunked`) while it is recorded; its end ends the stream, and a body that breaks off is an error. The answer begins at once: events of server-sent events, of which the last is `live.done` or `live.failed`. A slot of a worker is held from beginning to end; without a free one, the answer is 503 at once.',
  scope: 'submit',
  forTenants: true,
  consumes: ['*/*'],
  query: LiveQuery,
  responses: {
    200: { description: 'The events.', type: 'text/event-stream', schema: LiveEvent },
  },
  errors: [
    'MODEL_UNKNOWN',
    'TASK_UNSUPPORTED',
    'OPTION_UNSUPPORTED',
    'NO_WORKER',
    'BUSY_TIMEOUT',
    'STREAM_LIMIT',
    'MODEL_LOAD_FAILED',
  ],
  handle: async (request): Promise<typeof STREAMED> => {
    await transcribe(request);
    return STREAMED;
  },
});

async function transcribe(
  request: RouteRequest<undefined, LiveQuery, undefined, undefined>,
): Promise<void> {
  const { req, res, query, services, caller, signal, logger } = request;
  const { settings, live, liveLimit } = services;
  assertBody(req);
  const model = modelNamed(query.model, settings);
  const options = optionsOf(query);
  const job = { task: 'transcribe', model, options: TranscribeOptions.parse(options) } as const;
  await queueForTask(job, services);
  const { maxEventBytes: maxBufferedBytes, liveIdleMs: idleTimeoutMs } = settings;
  const client = new SseResponse({ req, res, signal, maxBufferedBytes, logger });
  const writer = new LiveEventWriter(client);
  const id = randomUUID();
  const place = await liveLimit.take(limitedCaller(caller), id);
  try {
    const stream = await live.open({
      ...{ id, model, options, idleTimeoutMs, signal },
      format: formatOf(query),
      onEvent: (event) => writer.writeProgress(event),
    });
    await relayBody(stream, writer, { req, res, client, services, model });
  } finally {
    await place.release();
  }
}

/** All keys of a tenant share one limit. No key's id looks like this. */
function limitedCaller({ id, tenant }: Caller): string {
  return tenant === undefined ? id : `tenant:${tenant}`;
}

/** Takes only bodies that show whether they are complete, and in which every byte is audio. */
function assertBody({ headers }: Request): void {
  const { 'transfer-encoding': coding, 'content-length': length } = headers;
  const isChunked = coding?.trim().toLowerCase() === 'chunked';
  if (isChunked || (coding === undefined && length !== undefined)) return;
  const sent = coding === undefined ? 'nothing' : `Transfer-Encoding: ${coding}`;
  throw new WavepoolError(
    'INVALID_REQUEST',
    `send PCM with Transfer-Encoding: chunked, not ${sent}`,
  );
}

function formatOf(query: LiveQuery): LiveFormat {
  const { sample_rate: sampleRate, channels, sample_format: sampleFormat } = query;
  return { sampleRate, channels, sampleFormat };
}

function optionsOf({ options, language, prompt }: LiveQuery): LiveTranscribeSettings {
  const said = {
    ...(language === undefined ? {} : { language }),
    ...(prompt === undefined ? {} : { prompt }),
  };
  return parseLiveTranscribeSettings({ ...options, ...said });
}

/** How long the last event may take to be sent. */
const FLUSH_MS = 5_000;

interface RelayOptions {
  readonly req: Request;
  readonly res: Response;
  readonly client: SseResponse;
  readonly services: Services;
  readonly model: string;
}

/** Writes the events of a live stream to the client, and collects the text of the segments. */
class LiveEventWriter {
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
async function relayBody(
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

export const liveRoutes = [transcribeLive];

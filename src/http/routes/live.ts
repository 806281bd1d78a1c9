/** Live audio: it is transcribed while it is being recorded. */
import { randomUUID } from 'node:crypto';
import type { Request } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import { TranscribeOptions } from '../../core/job/job.ts';
import {
  type LiveFormat,
  type LiveTranscribeSettings,
  parseLiveTranscribeSettings,
} from '../../core/live/live.ts';
import { LiveEvent, LiveQuery } from '../../core/live/live-api.ts';
import type { Caller } from '../auth/caller.ts';
import { SseResponse } from '../event-streams/sse-response.ts';
import { LiveEventWriter, relayBody } from '../live/relay-body.ts';
import { type RouteRequest, route, STREAMED } from '../request/route.ts';
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

export const liveRoutes = [transcribeLive];

/** Live audio: sent as it comes, and what is heard in it told meanwhile. */
import { WavepoolError } from '../core/errors.ts';
import type { LiveFormat, LiveTranscribeSettingsInput } from '../core/live/live.ts';
import { LiveEvent } from '../core/live/live-api.ts';
import { unreachable } from './answers.ts';
import { type AudioSource, audioBody, type OpenedBody } from './audio-source.ts';
import { SseParser } from './sse-parser.ts';
import type { Transport } from './transport.ts';

export interface LiveOptions extends Partial<LiveFormat> {
  /** @defaultValue the server's */
  readonly model?: string | undefined;
  /** As for jobs. */
  readonly options?: LiveTranscribeSettingsInput | undefined;
  /** Ends the stream. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Events until `live.done`, which is the last. Leaving the loop ends the stream. Nothing is tried again.
 * @throws {WavepoolError} with the code that ended the stream; BUSY_TIMEOUT or NO_WORKER where none is free; SERVER_UNREACHABLE
 */
export async function* liveEvents(
  transport: Transport,
  source: AudioSource,
  { model, sampleRate, channels, sampleFormat, options, signal }: LiveOptions,
): AsyncGenerator<LiveEvent, void> {
  const leaving = new AbortController();
  const body = await audioBody(source).open();
  try {
    const attempt = await transport.open({
      method: 'POST',
      path: '/v1/audio/transcriptions/live',
      query: {
        model,
        sample_rate: sampleRate,
        channels,
        sample_format: sampleFormat,
        options: options === undefined ? undefined : JSON.stringify(options),
      },
      audio: { name: undefined, replayable: false, open: () => Promise.resolve(kept(body)) },
      // Until a worker that has to load the model listens.
      timeoutMs: 0,
      signal: signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal]),
    });
    if ('failure' in attempt) throw attempt.failure.error;
    for await (const event of readEvents(attempt.result, signal)) {
      if (event.type === 'live.failed') throw failureOf(event, body);
      yield event;
      if (event.type === 'live.done') return;
    }
    throw new WavepoolError('SERVER_UNREACHABLE', 'the stream broke off');
  } finally {
    leaving.abort();
    await body[Symbol.asyncDispose]();
  }
}

/** The transport lets go of a body when the answer begins; this one is being sent then. */
function kept(body: OpenedBody): OpenedBody {
  return {
    body: body.body,
    get failure() {
      return body.failure;
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

async function* readEvents(
  { body }: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<LiveEvent> {
  const parser = new SseParser();
  const decoder = new TextDecoder();
  try {
    for await (const chunk of body ?? []) {
      for (const { data } of parser.push(decoder.decode(chunk, { stream: true }))) {
        // Events of newer servers are not for this version.
        const event = LiveEvent.safeParse(JSON.parse(data)).data;
        if (event !== undefined) yield event;
      }
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw unreachable(error);
  }
}

function failureOf(
  { error }: Extract<LiveEvent, { type: 'live.failed' }>,
  { failure }: OpenedBody,
): unknown {
  return failure === undefined ? new WavepoolError(error.code, error.message) : failure.error;
}

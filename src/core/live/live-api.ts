/** `POST /v1/audio/transcriptions/live`: what comes in the query, and what goes out as events. */
import { z } from 'zod';
import { ERROR_CODES } from '../errors.ts';
import { TranscribeOptions } from '../job/job.ts';
import { apiSchemas } from '../openapi.ts';
import { LiveFormat, LiveTranscribeSettings } from './live.ts';

const Seconds = z.number().min(0);

/** Not an error of the schema, so that the client is told what is wrong with its JSON. */
const Json = z.string().transform((text, context): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    context.addIssue({ code: 'custom', message: 'this is no JSON' });
    return z.NEVER;
  }
});

const { sampleRate, channels, sampleFormat } = LiveFormat.shape;
const fromText = <Schema extends z.ZodDefault<z.ZodInt>>(schema: Schema) =>
  z.coerce.number<string>().pipe(schema.unwrap()).default(schema.parse(undefined));

export const LiveQuery = z.strictObject({
  model: z.string().min(1).max(128).optional(),
  sample_rate: fromText(sampleRate),
  channels: fromText(channels),
  sample_format: sampleFormat,
  language: TranscribeOptions.shape.language,
  prompt: TranscribeOptions.shape.prompt,
  options: Json.pipe(LiveTranscribeSettings)
    .meta({ description: 'the options of a job, as JSON; `language` and `prompt` go before' })
    .optional(),
});
export type LiveQuery = z.infer<typeof LiveQuery>;

/** Its slot is the client's now. */
export const LiveOpenedEvent = z.strictObject({
  type: z.literal('live.opened'),
  id: z.uuid(),
  model: z.string(),
});
/** Somebody speaks, since `start` seconds. A segment follows. */
export const LiveSpeechStartedEvent = z.strictObject({
  type: z.literal('live.speech-started'),
  start: Seconds,
});
/** The speech has ended; its words follow under the same index. */
export const LiveSpeechEndedEvent = z.strictObject({
  type: z.literal('live.speech-ended'),
  index: z.int().min(0),
  start: Seconds,
  end: Seconds,
});
/** In the order of the audio. */
export const LiveSegmentEvent = z.strictObject({
  type: z.literal('live.segment'),
  index: z.int().min(0),
  start: Seconds,
  end: Seconds,
  text: z.string(),
  /** The model's limit of tokens ended the text. */
  truncated: z.boolean(),
});
/** The last event of a stream that ended well. */
export const LiveDoneEvent = z.strictObject({
  type: z.literal('live.done'),
  /** Of all segments. */
  text: z.string(),
  durationSeconds: Seconds,
  speechSeconds: Seconds,
  segments: z.int().min(0),
});
/** The last event of one that did not. */
export const LiveFailedEvent = z.strictObject({
  type: z.literal('live.failed'),
  error: z.strictObject({
    code: z.enum(ERROR_CODES),
    type: z.string(),
    message: z.string(),
    retryable: z.boolean(),
  }),
});

/** What a worker tells while it listens. */
export const LiveProgressEvent = z.discriminatedUnion('type', [
  LiveSpeechStartedEvent,
  LiveSpeechEndedEvent,
  LiveSegmentEvent,
]);
export type LiveProgressEvent = z.infer<typeof LiveProgressEvent>;

export const LiveEvent = z
  .discriminatedUnion('type', [
    LiveOpenedEvent,
    LiveSpeechStartedEvent,
    LiveSpeechEndedEvent,
    LiveSegmentEvent,
    LiveDoneEvent,
    LiveFailedEvent,
  ])
  .register(apiSchemas, { id: 'LiveEvent' });
export type LiveEvent = z.infer<typeof LiveEvent>;

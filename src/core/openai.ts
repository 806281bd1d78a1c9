/** Requests and answers of the routes that OpenAI's clients use, as far as the models here have what they ask for. */
import { z } from 'zod';
import { TranscribeOptions } from './job.ts';
import { apiSchemas } from './openapi.ts';
import type { Transcript } from './transcript.ts';

const EMPTY = z.literal('').transform(() => undefined);

/** The fields of `POST /v1/audio/transcriptions`, without the file. What is not there is refused, not ignored. */
export const TranscriptionForm = z
  .strictObject({
    model: z.string().min(1).max(128).optional(),
    language: EMPTY.or(TranscribeOptions.shape.language),
    response_format: z.enum(['json', 'text', 'srt', 'verbose_json', 'vtt']).default('json'),
    stream: z
      .enum(['true', 'false', '1', '0', ''])
      .transform((text) => text === 'true' || text === '1')
      .default(false),
    prompt: z.literal('', 'the models take no prompt').optional(),
    temperature: z.coerce
      .number()
      .refine((temperature) => temperature === 0, 'decoding is greedy: only 0 is possible')
      .optional(),
    timestamp_granularities: z
      .array(z.literal('segment', 'only the times of segments are known'))
      .optional(),
    /** Ours: for a slot of a worker; 0 is no limit. */
    busy_timeout_ms: z.coerce.number().int().min(0).optional(),
    chunking_strategy: z.literal('auto', 'only auto is possible').optional(),
  })
  .refine(
    ({ stream, response_format: format }) => !stream || format === 'json' || format === 'text',
    { path: ['response_format'], message: 'a stream is json or text' },
  );
export type TranscriptionForm = z.infer<typeof TranscriptionForm>;

const Usage = z.strictObject({ type: z.literal('duration'), seconds: z.number().min(0) });

export const OpenAiTranscription = z
  .strictObject({ text: z.string(), usage: Usage })
  .register(apiSchemas, { id: 'OpenAiTranscription' });
export type OpenAiTranscription = z.infer<typeof OpenAiTranscription>;

/** What the models here do not tell is 0 or empty. */
export const OpenAiSegment = z.strictObject({
  id: z.int().min(0),
  seek: z.literal(0),
  start: z.number().min(0),
  end: z.number().min(0),
  text: z.string(),
  tokens: z.array(z.int()).max(0),
  temperature: z.literal(0),
  avg_logprob: z.literal(0),
  compression_ratio: z.literal(0),
  no_speech_prob: z.literal(0),
});

export const OpenAiVerboseTranscription = z
  .strictObject({
    task: z.literal('transcribe'),
    language: z.string().meta({ description: 'as asked for; `und` when nothing was said' }),
    duration: z.number().min(0),
    text: z.string(),
    segments: z.array(OpenAiSegment),
    usage: Usage,
  })
  .register(apiSchemas, { id: 'OpenAiVerboseTranscription' });
export type OpenAiVerboseTranscription = z.infer<typeof OpenAiVerboseTranscription>;

/** What `stream=true` sends; each is the data of an event without a name. */
export type OpenAiStreamEvent =
  | { readonly type: 'transcript.text.delta'; readonly delta: string }
  | { readonly type: 'transcript.text.done'; readonly text: string };

export function openAiTranscription(transcript: Transcript): OpenAiTranscription {
  return { text: transcript.text, usage: usageOf(transcript) };
}

export function openAiVerboseTranscription(
  transcript: Transcript,
  language = 'und',
): OpenAiVerboseTranscription {
  return {
    task: 'transcribe',
    language,
    duration: transcript.audio.durationSeconds,
    text: transcript.text,
    segments: transcript.segments.map(({ start, end, text }, id) => ({
      id,
      seek: 0,
      start,
      end,
      text,
      tokens: [],
      temperature: 0,
      avg_logprob: 0,
      compression_ratio: 0,
      no_speech_prob: 0,
    })),
    usage: usageOf(transcript),
  };
}

function usageOf({ audio }: Transcript) {
  return { type: 'duration' as const, seconds: Math.ceil(audio.durationSeconds) };
}

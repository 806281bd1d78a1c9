/** Requests and answers of the routes that OpenAI's clients use, as far as the models here have what they ask for. */
import { deflateSync } from 'node:zlib';
import { z } from 'zod';
import { TranscribeOptions } from '../job/job.ts';
import { apiSchemas } from '../openapi.ts';
import type { Transcript, TranscriptSegment } from '../results/job-result.ts';

const EMPTY = z.literal('').transform(() => undefined);

/** What both routes take. */
const COMMON_FIELDS = {
  model: z.string().min(1).max(128).optional(),
  response_format: z.enum(['json', 'text', 'srt', 'verbose_json', 'vtt']).default('json'),
  prompt: EMPTY.or(TranscribeOptions.shape.prompt),
  temperature: z.coerce
    .number()
    .refine((temperature) => temperature === 0, 'decoding is greedy: only 0 is possible')
    .optional(),
  /** Ours: for a slot of a worker; 0 is no limit. */
  busy_timeout_ms: z.coerce.number().int().min(0).optional(),
};

/** The fields of `POST /v1/audio/translations`, without the file. */
export const TranslationForm = z.strictObject(COMMON_FIELDS);
export type TranslationForm = z.infer<typeof TranslationForm>;

/** The fields of `POST /v1/audio/transcriptions`, without the file. What is not there is refused, not ignored. */
export const TranscriptionForm = z
  .strictObject({
    ...COMMON_FIELDS,
    language: EMPTY.or(TranscribeOptions.shape.language),
    stream: z
      .enum(['true', 'false', '1', '0', ''])
      .transform((text) => text === 'true' || text === '1')
      .default(false),
    timestamp_granularities: z.array(z.enum(['word', 'segment'])).optional(),
    chunking_strategy: z.literal('auto', 'only auto is possible').optional(),
  })
  .refine(
    ({ stream, response_format: format }) => !stream || format === 'json' || format === 'text',
    { path: ['response_format'], message: 'a stream is json or text' },
  )
  .refine(
    ({ timestamp_granularities: times, response_format: format }) =>
      times?.includes('word') !== true || format === 'verbose_json',
    { path: ['timestamp_granularities'], message: 'words with times are in verbose_json' },
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
  temperature: z.number().min(0),
  avg_logprob: z.number().max(0),
  compression_ratio: z.number().min(0),
  no_speech_prob: z.number().min(0).max(1),
});

export const OpenAiWord = z.strictObject({
  word: z.string(),
  start: z.number().min(0),
  end: z.number().min(0),
});

export const OpenAiVerboseTranscription = z
  .strictObject({
    task: z.enum(['transcribe', 'translate']),
    language: z
      .string()
      .meta({ description: 'of the text: ISO 639-1; `und` where nobody can tell' }),
    duration: z.number().min(0),
    text: z.string(),
    words: z.array(OpenAiWord).optional(),
    segments: z.array(OpenAiSegment).optional(),
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

export interface VerboseOptions {
  /** Of the text, where the transcript does not tell. */
  readonly language?: string | undefined;
  readonly translated?: boolean;
  /** @defaultValue segments */
  readonly granularities?: readonly ('word' | 'segment')[] | undefined;
}

export function openAiVerboseTranscription(
  transcript: Transcript,
  { language, translated = false, granularities = ['segment'] }: VerboseOptions = {},
): OpenAiVerboseTranscription {
  const { audio, text, segments } = transcript;
  return {
    task: translated ? 'translate' : 'transcribe',
    language: translated ? 'en' : (transcript.language ?? language ?? 'und'),
    duration: audio.durationSeconds,
    text,
    ...(granularities.includes('word') ? { words: segments.flatMap(openAiWordsOf) } : {}),
    ...(granularities.includes('segment') ? { segments: segments.map(openAiSegment) } : {}),
    usage: usageOf(transcript),
  };
}

function openAiWordsOf({ words = [] }: TranscriptSegment) {
  return words.map(({ text: word, start, end }) => ({ word, start, end }));
}

function openAiSegment(segment: TranscriptSegment, id: number): z.infer<typeof OpenAiSegment> {
  const { start, end, text, confidence, noSpeechProbability = 0, temperature = 0 } = segment;
  return {
    id,
    seek: 0,
    start,
    end,
    text,
    tokens: [],
    temperature,
    avg_logprob: confidence === undefined ? 0 : averageLogProbability(confidence),
    compression_ratio: compressionRatio(text),
    no_speech_prob: noSpeechProbability,
  };
}

/** Of what is stored to four digits. */
function averageLogProbability(confidence: number): number {
  return Math.log(Math.max(0.0001, confidence));
}

/** As Whisper has it: how much zlib makes of the text, which is a lot when it repeats itself. 0 of nothing. */
export function compressionRatio(text: string): number {
  const bytes = Buffer.from(text, 'utf8');
  return bytes.length === 0 ? 0 : bytes.length / deflateSync(bytes).length;
}

function usageOf({ audio }: Transcript) {
  return { type: 'duration' as const, seconds: Math.ceil(audio.durationSeconds) };
}

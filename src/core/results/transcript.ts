/** The stored result of a `transcribe` job. Every output format is rendered from it. */
import { z } from 'zod';
import { WavepoolError } from '../errors.ts';
import {
  RESULT_SCHEMA_VERSION,
  ResultWarning,
  resultFacts,
  resultIdentity,
  resultSource,
} from './result-members.ts';

export const TRANSCRIPT_SCHEMA_VERSION = RESULT_SCHEMA_VERSION;

/** How sure the recognizer is, where its family tells: 0 not at all, 1 entirely. */
const Confidence = z.number().min(0).max(1);

export const TranscriptWord = z.strictObject({
  /** Seconds from the beginning of the input. */
  start: z.number().min(0),
  end: z.number().min(0),
  text: z.string(),
  confidence: Confidence.optional(),
});
export type TranscriptWord = z.infer<typeof TranscriptWord>;

export const TranscriptSegment = z.strictObject({
  /** Seconds from the beginning of the input. */
  start: z.number().min(0),
  end: z.number().min(0),
  text: z.string(),
  /** Who speaks, where channels were transcribed one by one. */
  speaker: z.string().optional(),
  confidence: Confidence.optional(),
  /** How likely the recognizer thinks it that nobody speaks here. */
  noSpeechProbability: Confidence.optional(),
  /** Of the decoding that gave the text; 0 = greedy. */
  temperature: z.number().min(0).optional(),
  /** If they were asked for. */
  words: z.array(TranscriptWord).optional(),
  /** The token limit ended the segment, not the model. */
  truncated: z.boolean().optional(),
});
export type TranscriptSegment = z.infer<typeof TranscriptSegment>;

export const TranscriptWarning = ResultWarning;
export type TranscriptWarning = ResultWarning;

export const Transcript = z.strictObject({
  ...resultIdentity,
  /** A result that names no task is a transcript. */
  task: z.literal('transcribe').default('transcribe'),
  ...resultSource,
  /** ISO 639-1; of what was spoken, given or detected. */
  language: z.string().optional(),
  text: z.string(),
  segments: z.array(TranscriptSegment),
  noSpeech: z.boolean(),
  ...resultFacts,
});
export type Transcript = z.infer<typeof Transcript>;

/**
 * A transcript as it was read from a store.
 * @throws {WavepoolError} INTERNAL when it is not one.
 */
export function parseTranscript(raw: unknown): Transcript {
  const parsed = Transcript.safeParse(raw);
  if (parsed.success) return parsed.data;
  throw new WavepoolError('INTERNAL', `not a transcript: ${z.prettifyError(parsed.error)}`, {
    cause: parsed.error,
  });
}

/** The one stored result of a job. Every output format is rendered from it. */
import { z } from 'zod';
import { WavepoolError } from './errors.ts';
import { JobId, JobTask, JobTimings, ModelId } from './job.ts';

export const TRANSCRIPT_SCHEMA_VERSION = 1;

export const TranscriptSegment = z.strictObject({
  /** Seconds from the beginning of the input. */
  start: z.number().min(0),
  end: z.number().min(0),
  text: z.string(),
  /** The token limit ended the segment, not the model. */
  truncated: z.boolean().optional(),
});
export type TranscriptSegment = z.infer<typeof TranscriptSegment>;

export const TranscriptWarning = z.strictObject({ code: z.string().min(1), message: z.string() });
export type TranscriptWarning = z.infer<typeof TranscriptWarning>;

export const Transcript = z.strictObject({
  schemaVersion: z.literal(TRANSCRIPT_SCHEMA_VERSION),
  jobId: JobId,
  model: ModelId,
  task: JobTask,
  input: z.strictObject({
    /** The file name without its folder. */
    name: z.string(),
    path: z.string(),
    bytes: z.int().min(0).optional(),
  }),
  /** As found in the input, before resampling. */
  audio: z.strictObject({
    durationSeconds: z.number().min(0),
    container: z.string(),
    codec: z.string(),
    sampleRate: z.number().min(0),
    channels: z.int().min(0),
  }),
  text: z.string(),
  segments: z.array(TranscriptSegment),
  noSpeech: z.boolean(),
  warnings: z.array(TranscriptWarning),
  timings: JobTimings,
  /** Identity of the native build that produced the text. */
  build: z.string(),
  createdAt: z.iso.datetime(),
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

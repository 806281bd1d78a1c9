/** The one stored result of a job, a document of its task: every output format is rendered from it. */
import { z } from 'zod';
import { WavepoolError } from '../errors.ts';
import { JobId, JobTimings, ModelId } from '../job/job.ts';
import { parse } from '../parse.ts';

export const RESULT_SCHEMA_VERSION = 1;

/** Something that a reader of the result should know about the input or the run. */
export const TranscriptWarning = z.strictObject({ code: z.string().min(1), message: z.string() });
export type TranscriptWarning = z.infer<typeof TranscriptWarning>;

// What the results of all tasks have in common comes in three parts; what the task gives stands between them.
const resultIdentity = {
  schemaVersion: z.literal(RESULT_SCHEMA_VERSION),
  jobId: JobId,
  model: ModelId,
};

const resultSource = {
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
};

const resultFacts = {
  warnings: z.array(TranscriptWarning),
  timings: JobTimings,
  /** Identity of the native build that produced the result. */
  build: z.string(),
  createdAt: z.iso.datetime(),
};

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

/** The result of a `transcribe` job. */
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

export const SpeechActivitySegment = z.strictObject({
  /** Seconds from the beginning of the input. */
  start: z.number().min(0),
  end: z.number().min(0),
  /** Mean probability of speech over the segment, padding left out. */
  confidence: z.number().min(0).max(1),
});
export type SpeechActivitySegment = z.infer<typeof SpeechActivitySegment>;

/** The result of a `vad` job: where somebody speaks. */
export const SpeechActivity = z.strictObject({
  ...resultIdentity,
  task: z.literal('vad'),
  ...resultSource,
  /** In the order of the audio; they never overlap. */
  segments: z.array(SpeechActivitySegment),
  noSpeech: z.boolean(),
  ...resultFacts,
});
export type SpeechActivity = z.infer<typeof SpeechActivity>;

/** Without `task` it is a transcript. */
export const JobResult = z.discriminatedUnion('task', [Transcript, SpeechActivity]);
export type JobResult = z.infer<typeof JobResult>;

/**
 * A result as it was read from a store.
 * @throws {WavepoolError} INTERNAL when it is none.
 */
export function parseJobResult(raw: unknown): JobResult {
  return parse(JobResult, raw, 'not a result', 'INTERNAL');
}

/** @throws {WavepoolError} INVALID_REQUEST when the result is of another task */
export function asTranscript(result: JobResult): Transcript {
  if (result.task === 'transcribe') return result;
  throw new WavepoolError(
    'INVALID_REQUEST',
    `job ${result.jobId} gave no transcript: it is a ${result.task} job`,
  );
}

/** @throws {WavepoolError} INVALID_REQUEST when the result is of another task */
export function asSpeechActivity(result: JobResult): SpeechActivity {
  if (result.task === 'vad') return result;
  throw new WavepoolError(
    'INVALID_REQUEST',
    `job ${result.jobId} gave no speech segments: it is a ${result.task} job`,
  );
}

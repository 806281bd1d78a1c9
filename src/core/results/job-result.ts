/** The one stored result of a job: a document of its task. */
import { z } from 'zod';
import { WavepoolError } from '../errors.ts';
import type { JobTask } from '../job/job.ts';
import { SpeechActivity } from './speech-activity.ts';
import { Transcript } from './transcript.ts';

/** Without `task` it is a transcript. */
export const JobResult = z.discriminatedUnion('task', [Transcript, SpeechActivity]);
export type JobResult = z.infer<typeof JobResult>;

export type JobResultOf<Task extends JobTask> = Extract<JobResult, { task: Task }>;

/**
 * A result as it was read from a store.
 * @throws {WavepoolError} INTERNAL when it is none.
 */
export function parseJobResult(raw: unknown): JobResult {
  const parsed = JobResult.safeParse(raw);
  if (parsed.success) return parsed.data;
  throw new WavepoolError('INTERNAL', `not a result: ${z.prettifyError(parsed.error)}`, {
    cause: parsed.error,
  });
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

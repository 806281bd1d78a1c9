/** What the stored results of all tasks have in common; in three parts, between which stands what the task gives. */
import { z } from 'zod';
import { JobId, JobTimings, ModelId } from '../job/job.ts';

export const RESULT_SCHEMA_VERSION = 1;

/** Something that a reader of the result should know about the input or the run. */
export const ResultWarning = z.strictObject({ code: z.string().min(1), message: z.string() });
export type ResultWarning = z.infer<typeof ResultWarning>;

export const resultIdentity = {
  schemaVersion: z.literal(RESULT_SCHEMA_VERSION),
  jobId: JobId,
  model: ModelId,
};

export const resultSource = {
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

export const resultFacts = {
  warnings: z.array(ResultWarning),
  timings: JobTimings,
  /** Identity of the native build that produced the result. */
  build: z.string(),
  createdAt: z.iso.datetime(),
};

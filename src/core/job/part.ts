/** A part of a split job: some of its segments, for whichever worker has room. */
import { z } from 'zod';
import { JobInput, ModelId } from './job.ts';
import { JournalResult } from './journal-line.ts';

export const PartSegment = z.strictObject({
  startSample: z.int().min(0),
  endSample: z.int().min(0),
  channel: z.int().min(0),
  /** As the recognizer takes them. */
  options: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
});
export type PartSegment = z.infer<typeof PartSegment>;

export const PartData = z.strictObject({
  /** Of the job. */
  jobId: z.string(),
  model: ModelId,
  input: JobInput,
  /** Of the file that the segments were found in: another file has others. */
  bytes: z.int().min(0),
  modifiedAtMs: z.number().optional(),
  channels: z.enum(['mix', 'split']),
  /** In the order of the audio. */
  segments: z.array(PartSegment).min(1),
  busyTimeoutMs: z.int().min(0),
  /** Milliseconds since 1970; tells parts of the same id apart. */
  submittedAt: z.int().min(0),
});
export type PartData = z.infer<typeof PartData>;

/** In the order of the part's segments. */
export const PartResult = z.strictObject({
  /** Of the native code: other code may give other words. */
  build: z.string(),
  results: z.array(JournalResult),
});
export type PartResult = z.infer<typeof PartResult>;

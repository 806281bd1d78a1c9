/** What `run` keeps in `OUT/.wavepool/`: the run's identity, and one line per finished input. */
import { z } from 'zod';
import { ERROR_CODES } from '../errors.ts';
import { parseJson } from '../lenient-parse.ts';
import { RESULT_FORMATS } from '../results/result-formats.ts';

export const RUN_SCHEMA_VERSION = 1;

export const RunIdentity = z.strictObject({
  schemaVersion: z.literal(RUN_SCHEMA_VERSION),
  runId: z.uuid(),
  createdAt: z.iso.datetime(),
});
export type RunIdentity = z.infer<typeof RunIdentity>;

/** A file written for an input. Its size tells a whole file from one that a power failure cut short. */
export const OutputFile = z.strictObject({
  format: z.enum(RESULT_FORMATS),
  /** Relative to the output directory. */
  path: z.string().min(1),
  bytes: z.int().min(0),
});
export type OutputFile = z.infer<typeof OutputFile>;

const inputIdentity = {
  /** Of the input, relative to the output directory. */
  path: z.string().min(1),
  bytes: z.int().min(0),
  mtimeMs: z.number(),
  /** SHA-256 of the content, where it was worth computing. */
  hash: z.string().optional(),
  /** Model, weights and options. */
  optionsKey: z.string(),
  jobId: z.string(),
};

export const DoneRecord = z.strictObject({
  state: z.literal('done'),
  ...inputIdentity,
  resultKey: z.string().min(1),
  audioSeconds: z.number().min(0),
  noSpeech: z.boolean(),
  outputs: z.array(OutputFile),
});
export type DoneRecord = z.infer<typeof DoneRecord>;

export const FailedRecord = z.strictObject({
  state: z.literal('failed'),
  ...inputIdentity,
  code: z.enum(ERROR_CODES),
  message: z.string(),
});
export type FailedRecord = z.infer<typeof FailedRecord>;

export const InputRecord = z.discriminatedUnion('state', [DoneRecord, FailedRecord]);
export type InputRecord = z.infer<typeof InputRecord>;

/** The record of one line, or nothing for a line that is torn or of another version. */
export function parseInputRecord(line: string): InputRecord | undefined {
  return InputRecord.safeParse(parseJson(line)).data;
}

export function parseRunIdentity(text: string): RunIdentity | undefined {
  return RunIdentity.safeParse(parseJson(text)).data;
}

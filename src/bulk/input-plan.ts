/** Decides what an input of a run needs, from what an earlier run wrote about it. */
import path from 'node:path';
import type { ErrorCode } from '../core/errors.ts';
import { sha256OfFile } from '../core/files/file-hash.ts';
import type { DoneRecord, FailedRecord, InputRecord } from '../core/files/run-manifest.ts';
import type { ResultFormat } from '../core/results/result-formats.ts';
import type { OutputFolder } from './output-folder.ts';
import { outputFileName } from './output-names.ts';
import type { ScannedInput } from './scan.ts';

/** Larger inputs are told from their changed copies by size and time alone: hashing them would cost a read of gigabytes. */
const MAX_HASHED_BYTES = 256 * 1024 * 1024;

/** Failures that lie in the input: the same file fails the same way. All others may be gone in the next run. */
const PERMANENT_FAILURES: ReadonlySet<ErrorCode> = new Set([
  'INVALID_REQUEST',
  'INPUT_EMPTY',
  'INPUT_UNDECODABLE',
  'INPUT_TOO_LARGE',
]);

/** An input with everything that names it in this run. */
export interface RunInput extends ScannedInput {
  /** Relative to the output directory, of an object its address: the input's name in the manifest. */
  readonly manifestPath: string;
}

export type InputPlan =
  /** Everything wanted is there. */
  | { readonly kind: 'finished'; readonly record: DoneRecord }
  /** The result exists, some of its formats do not. */
  | { readonly kind: 'render'; readonly record: DoneRecord }
  /** It failed and would fail again. */
  | { readonly kind: 'report'; readonly record: FailedRecord }
  | { readonly kind: 'work' };

export interface PlanContext {
  readonly output: OutputFolder;
  readonly formats: readonly ResultFormat[];
  /** Model, weights and options; see `InputRecord`. */
  readonly optionsKey: string;
}

/** Brings the manifest up to date when a file was only touched: a later run need not hash it again. */
export async function planInput(input: RunInput, context: PlanContext): Promise<InputPlan> {
  const known = await context.output.manifest.find(input.manifestPath);
  if (known === undefined || known.optionsKey !== context.optionsKey) return { kind: 'work' };
  const record = await sameContent(input, known);
  if (record === undefined) return { kind: 'work' };
  if (record !== known) await context.output.manifest.append(record);
  if (record.state === 'failed')
    return isPermanentFailure(record.code) ? { kind: 'report', record } : { kind: 'work' };
  const whole = await hasEveryOutput(input, record, context);
  return { kind: whole ? 'finished' : 'render', record };
}

export function isPermanentFailure(code: ErrorCode): boolean {
  return PERMANENT_FAILURES.has(code);
}

/** Relative to the output directory. */
export function outputPath(input: ScannedInput, format: ResultFormat): string {
  return path.join(input.outputFolder, outputFileName(input.outputName, format));
}

/** SHA-256 of a file's content; undefined when it is too large to be worth it or cannot be read. Of an object, the store's. */
export async function contentHash(input: ScannedInput): Promise<string | undefined> {
  if (input.object !== undefined) return input.object.etag;
  if (input.bytes > MAX_HASHED_BYTES) return undefined;
  try {
    return await sha256OfFile(input.path);
  } catch {
    return undefined;
  }
}

/** The record if it is about this very content, with the time of today's file. */
async function sameContent(input: RunInput, record: InputRecord): Promise<InputRecord | undefined> {
  if (record.bytes !== input.bytes) return undefined;
  // The times of objects are whole seconds: one may be replaced within.
  const sameTag = input.object === undefined || input.object.etag === record.hash;
  if (record.mtimeMs === input.mtimeMs && sameTag) return record;
  if (record.hash === undefined || (await contentHash(input)) !== record.hash) return undefined;
  return { ...record, mtimeMs: input.mtimeMs };
}

async function hasEveryOutput(
  input: RunInput,
  record: DoneRecord,
  { output, formats }: PlanContext,
): Promise<boolean> {
  for (const format of formats) {
    const wanted = outputPath(input, format);
    const written = record.outputs.find((one) => one.path === wanted);
    if (written === undefined || !output.manifest.owns(input.manifestPath, wanted)) return false;
    if (!(await output.holds(written))) return false;
  }
  return true;
}

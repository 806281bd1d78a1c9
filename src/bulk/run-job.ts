/** One input's job: added or found again, waited for, its result read. */
import { createHash } from 'node:crypto';
import type { ErrorCode } from '../core/errors.ts';
import { toWavepoolError, WavepoolError } from '../core/errors.ts';
import type { JobInput, JobOutcome, NewJob, OmitEach, RawAudioFormat } from '../core/job/job.ts';
import type { JobResult } from '../core/results/job-result.ts';
import type { AudioQueue } from '../queue/audio-queue.ts';
import type { JobView } from '../queue/jobs/job-view.ts';
import type { ResultStore } from '../storage/result-store.ts';
import type { RunInput } from './input-plan.ts';
import { isPermanentFailure } from './input-plan.ts';

export type InputEnd =
  | {
      readonly kind: 'done';
      readonly jobId: string;
      readonly outcome: JobOutcome;
      readonly result: JobResult;
    }
  | {
      readonly kind: 'failed';
      readonly jobId: string;
      readonly code: ErrorCode;
      readonly message: string;
    }
  /** The run was stopped before the job ended; the job stays in the queue. */
  | { readonly kind: 'left'; readonly jobId: string };

export interface RunJobContext {
  readonly queue: AudioQueue;
  readonly results: ResultStore;
  readonly runId: string;
  /** Model, weights and options. */
  readonly optionsKey: string;
  readonly job: OmitEach<NewJob, 'id' | 'input' | 'runId'>;
  readonly rawFormat: RawAudioFormat | undefined;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /** Told the id under which the input waits. */
  readonly onSubmitted: (jobId: string) => void;
}

/** A failover of Redis may lose what it has only just confirmed, a job too; that often an input's job is added again. */
const MOST_LOSSES = 3;

/**
 * Runs the input's job. An earlier run may have left it waiting, running or ended; then it is not run twice, but one that
 * failed for a reason that may have gone is retried.
 *
 * The id follows from the run and the input. A job whose stored result has vanished keeps its id in the queue, so the
 * input then moves on to the next id.
 */
export async function runJob(input: RunInput, context: RunJobContext): Promise<InputEnd> {
  let generation = 0;
  for (let losses = 0; ; ) {
    const jobId = jobIdOf(input, generation, context);
    const known = await submit(jobId, input, context);
    context.onSubmitted(jobId);
    const end = await endOf(jobId, known, context);
    if (end.kind === 'lost') {
      losses += 1;
      if (losses > MOST_LOSSES) return failed(jobId, end.error);
      continue;
    }
    if (end.kind !== 'completed') return end;
    const result = await readResult(end.outcome.resultKey, context.results);
    if (result !== undefined) return { kind: 'done', jobId, outcome: end.outcome, result };
    if (known?.state !== 'completed')
      return failed(jobId, new WavepoolError('RESULT_NOT_FOUND', end.outcome.resultKey));
    generation += 1;
  }
}

/** Undefined when there is no such result any more, or it is damaged: it is made again. */
export async function readResult(
  resultKey: string,
  results: ResultStore,
): Promise<JobResult | undefined> {
  try {
    return await results.read(resultKey);
  } catch (error) {
    if (error instanceof WavepoolError) return undefined;
    throw error;
  }
}

/** What the queue knew about the job before; undefined for a new one. */
async function submit(
  jobId: string,
  input: RunInput,
  { queue, job, runId, rawFormat }: RunJobContext,
): Promise<JobView | undefined> {
  const known = await queue.get(jobId);
  if (known === undefined) {
    await queue.add({ ...job, id: jobId, runId, input: jobInputOf(input, rawFormat) });
    return undefined;
  }
  const ended = known.state === 'failed' || known.state === 'cancelled';
  if (!ended || known.failure === undefined || isPermanentFailure(known.failure.code)) return known;
  return (await queue.retry(jobId)) ? undefined : known;
}

function jobInputOf({ path, object }: RunInput, rawFormat: RawAudioFormat | undefined): JobInput {
  if (object === undefined) return { kind: 'path', path, rawFormat };
  return { kind: 'object', bucket: object.bucket, key: object.key, rawFormat };
}

type End =
  | { readonly kind: 'completed'; readonly outcome: JobOutcome }
  /** The queue no longer knows the job. */
  | { readonly kind: 'lost'; readonly error: WavepoolError }
  | Exclude<InputEnd, { kind: 'done' }>;

async function endOf(
  jobId: string,
  known: JobView | undefined,
  { queue, signal }: RunJobContext,
): Promise<End> {
  if (known?.outcome !== undefined) return { kind: 'completed', outcome: known.outcome };
  try {
    return { kind: 'completed', outcome: await queue.waitFor(jobId, signal) };
  } catch (error) {
    // The job's failure and an error of the queue itself look alike: the job tells which.
    const view = await queue.get(jobId);
    if (view?.outcome !== undefined) return { kind: 'completed', outcome: view.outcome };
    if (view?.failure !== undefined)
      return { kind: 'failed', jobId, ...codeAndMessage(view.failure) };
    if (signal.aborted) return { kind: 'left', jobId };
    if (view === undefined) return { kind: 'lost', error: toWavepoolError(error) };
    throw error;
  }
}

function codeAndMessage({ code, message }: { code: ErrorCode; message: string }) {
  return { code, message };
}

function failed(jobId: string, error: WavepoolError): InputEnd & { kind: 'failed' } {
  return { kind: 'failed', jobId, code: error.code, message: error.message };
}

function jobIdOf(
  input: RunInput,
  generation: number,
  { runId, optionsKey }: RunJobContext,
): string {
  const { manifestPath, bytes, mtimeMs, object } = input;
  const tag = object === undefined ? [] : [object.etag];
  const parts = [runId, manifestPath, bytes, mtimeMs, optionsKey, generation, ...tag];
  const identity = JSON.stringify(parts);
  return `run-${createHash('sha256').update(identity).digest('hex').slice(0, 40)}`;
}

/**
 * What a worker does with one job, from the queue's data to the committed result. Knows nothing of BullMQ: the caller
 * gives it the job's data, a signal and two callbacks, and maps what it throws to the queue.
 */
import { stat } from 'node:fs/promises';
import { WavepoolError } from '../core/errors.ts';
import type { JobData, JobInput, JobOutcome, JobProgress, PartialSegment } from '../core/job.ts';
import type { Transcript } from '../core/transcript.ts';
import type { ModelEntry } from '../runtime/model-entry.ts';
import type { Runtime } from '../runtime/runtime.ts';
import {
  describeInput,
  type InputPlaces,
  type ResolvedInput,
  resolveInput,
} from '../storage/inputs.ts';
import type { ResultStore } from '../storage/result-store.ts';
import type { DecodeAllowance } from './decode-allowance.ts';
import { type InputReader, openInput } from './input-reader.ts';
import type { RecognizedSegment } from './pending-segments.ts';
import { buildTranscript, outcomeOf, toSeconds } from './transcript-builder.ts';
import { type Transcription, TranscriptionRun } from './transcription.ts';

/** Progress within a phase is told at most this often. */
const PROGRESS_INTERVAL_MS = 1_000;

export interface JobProcessorOptions {
  readonly runtime: Runtime;
  readonly detector: ModelEntry;
  readonly results: ResultStore;
  readonly allowance: DecodeAllowance;
  readonly ffmpeg: string;
  readonly places: InputPlaces;
}

export interface JobAttempt {
  readonly jobId: string;
  readonly data: JobData;
  readonly priority: number;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: JobProgress) => void;
  /** Told each segment when it is done. */
  readonly onSegment?: ((segment: PartialSegment) => void) | undefined;
  /** Throws when the job is no longer this worker's: its result must not be written then. */
  readonly assertOwned: () => Promise<void>;
}

export class JobProcessor {
  readonly #options: JobProcessorOptions;
  #sequence = 0;

  constructor(options: JobProcessorOptions) {
    this.#options = options;
  }

  /** @throws {WavepoolError} why the job failed. */
  async process(attempt: JobAttempt): Promise<JobOutcome> {
    const { results } = this.#options;
    attempt.signal.throwIfAborted();
    // A worker that died between its commit and the queue's knowing of it has done all the work.
    const key = results.keyOf(attempt.jobId);
    const earlier = await readIfThere(results, key);
    if (earlier) return outcomeOf(earlier, key);
    const transcript = await this.#transcribe(attempt);
    await attempt.assertOwned();
    const { committed } = await results.commit(attempt.jobId, transcript);
    return outcomeOf(committed ? transcript : await results.read(key), key);
  }

  async #transcribe(attempt: JobAttempt): Promise<Transcript> {
    const startedAt = Date.now();
    const { runtime, ffmpeg, places } = this.#options;
    const recognizer = runtime.entry(attempt.data.model);
    await using input = await resolveInput(attempt.data.input, places, attempt.signal);
    const reader = await openInput(runtime.engine, input, ffmpeg).catch((error: unknown) => {
      throw namedAsSent(error, input, attempt.data.input);
    });
    try {
      const transcription = await this.#run(attempt, reader, recognizer);
      if (transcription.durationSeconds === 0) {
        throw new WavepoolError('INPUT_EMPTY', describeInput(attempt.data.input));
      }
      if (attempt.data.input.kind === 'path') await assertUnchanged(input);
      return buildTranscript({
        jobId: attempt.jobId,
        data: attempt.data,
        bytes: input.bytes,
        reader,
        transcription,
        timings: {
          queuedMs: Math.max(0, startedAt - attempt.data.submittedAt),
          decodeMs: Math.round(transcription.decodeMs),
          vadMs: Math.round(transcription.vadMs),
          asrMs: Math.round(transcription.asrMs),
          totalMs: Date.now() - startedAt,
        },
        build: runtime.engine.build.identity,
        createdAt: new Date(),
      });
    } finally {
      await reader.close();
    }
  }

  #run(attempt: JobAttempt, reader: InputReader, recognizer: ModelEntry): Promise<Transcription> {
    const { jobId, data, priority, signal } = attempt;
    const { detector, allowance } = this.#options;
    this.#sequence += 1;
    let toldAt = Number.NEGATIVE_INFINITY;
    const request = {
      jobId,
      sequence: this.#sequence,
      priority,
      alone: data.crashCount > 0,
      options: data.options,
      busyTimeoutMs: data.clocks.busyTimeoutMs,
      onProgress: (progress: Omit<JobProgress, 'phase'>) => {
        const now = performance.now();
        if (now - toldAt < PROGRESS_INTERVAL_MS) return;
        toldAt = now;
        attempt.onProgress({ phase: 'running', ...progress });
      },
      onSegment: ({ startSample, endSample, text }: RecognizedSegment, index: number) => {
        const [start, end] = [toSeconds(startSample), toSeconds(endSample)];
        attempt.onSegment?.({ index, start, end, text });
      },
    };
    const services = { detector, recognizer, allowance, now: () => performance.now() };
    return new TranscriptionRun(reader, request, services).run(signal);
  }
}

/** Where an upload or a fetched file lies here means nothing to whoever sent it. */
function namedAsSent(error: unknown, { path, name }: ResolvedInput, sent: JobInput): unknown {
  if (sent.kind === 'path' || !(error instanceof WavepoolError)) return error;
  return new WavepoolError(error.code, error.detail.replaceAll(path, name), { cause: error });
}

async function readIfThere(results: ResultStore, key: string): Promise<Transcript | undefined> {
  try {
    return await results.read(key);
  } catch (error) {
    if (error instanceof WavepoolError && error.code === 'RESULT_NOT_FOUND') return undefined;
    throw error;
  }
}

/**
 * A file that was written to while it was read gives a transcript of nothing that ever existed. Only files of others can
 * change: an upload is named by its content, and the time it shows is that of its last use.
 */
async function assertUnchanged(input: ResolvedInput): Promise<void> {
  const now = await stat(input.path).catch(() => undefined);
  if (now && now.size === input.bytes && now.mtimeMs === input.modifiedAtMs) return;
  throw new WavepoolError('INPUT_CHANGED', input.path);
}

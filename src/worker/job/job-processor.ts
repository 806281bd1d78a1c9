/**
 * What a worker does with one job, from the queue's data to the committed result. Knows nothing of BullMQ: the caller
 * gives it the job's data, a signal and two callbacks, and maps what it throws to the queue.
 */
import { stat } from 'node:fs/promises';
import { WavepoolError } from '../../core/errors.ts';
import type {
  JobData,
  JobInput,
  JobOutcome,
  JobProgress,
  PartialSegment,
} from '../../core/job/job.ts';
import type { Logger } from '../../core/logger.ts';
import type { JobResult } from '../../core/results/job-result.ts';
import { NO_TRACING, type Tracing } from '../../core/tracing.ts';
import type { PartLine } from '../../queue/part-line.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import {
  describeInput,
  type InputPlaces,
  type ResolvedInput,
  resolveInput,
} from '../../storage/inputs.ts';
import type { ResultStore } from '../../storage/result-store.ts';
import type { DecodeAllowance } from '../audio/decode-allowance.ts';
import { type InputChannels, openChannels } from '../audio/input-channels.ts';
import { JobJournal } from '../journal/journal.ts';
import { JournalIdentity } from '../journal/journal-identity.ts';
import { PartDispatcher } from '../parts/part-dispatcher.ts';
import type { SpeechSegment } from '../speech/speech-segmenter.ts';
import { type Detection, runDetection } from '../tasks/detection.ts';
import {
  buildSpeechActivity,
  buildTranscript,
  outcomeOf,
  type ResultFacts,
  toSeconds,
} from '../tasks/job-results.ts';
import type { RecognizedSegment } from '../tasks/pending-segments.ts';
import { type Transcription, TranscriptionRun } from '../tasks/transcription.ts';

/** A job that has waited for its first slot for so long says so. */
const WAIT_TOLD_AFTER_MS = 1_000;
/** Progress within a phase is told at most this often. */
const PROGRESS_INTERVAL_MS = 1_000;

export interface JobProcessorOptions {
  readonly runtime: Runtime;
  readonly detector: ModelEntry;
  readonly results: ResultStore;
  readonly allowance: DecodeAllowance;
  readonly ffmpeg: string;
  readonly places: InputPlaces;
  /** Inputs with more audio fail with INPUT_TOO_LARGE; 0 = no limit. */
  readonly maxAudioSeconds: number;
  /** @defaultValue none */
  readonly tracing?: Tracing | undefined;
}

export interface JobAttempt {
  readonly jobId: string;
  readonly data: JobData;
  readonly priority: number;
  /** From 1. */
  readonly attempt?: number | undefined;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: JobProgress) => void;
  /** Told each segment when it is done. */
  readonly onSegment?: ((segment: PartialSegment) => void) | undefined;
  /** The way to other workers for the parts of a split job. */
  readonly openParts?: (() => Promise<PartLine>) | undefined;
  /** Told what the job's journal is worth. */
  readonly logger?: Logger | undefined;
  /** Throws when the job is no longer this worker's: its result must not be written then. */
  readonly assertOwned: () => Promise<void>;
}

type SaidInSegment = Pick<PartialSegment, 'text' | 'speaker'>;

/** What a run works with. */
interface Equipment {
  readonly channels: InputChannels;
  readonly model: ModelEntry;
  readonly journal: JobJournal;
  /** Of a split job. */
  readonly parts: PartDispatcher | undefined;
  readonly progress: AttemptProgress;
}

/** What a run found, with what the job asked for. */
type Finding =
  | { readonly task: 'transcribe'; readonly run: Transcription }
  | { readonly task: 'vad'; readonly run: Detection };

export class JobProcessor {
  readonly #options: JobProcessorOptions;
  readonly #journalIdentity: JournalIdentity;
  readonly #tracing: Tracing;
  #sequence = 0;

  constructor(options: JobProcessorOptions) {
    this.#options = options;
    this.#tracing = options.tracing ?? NO_TRACING;
    this.#journalIdentity = new JournalIdentity(options);
  }

  /** @throws {WavepoolError} why the job failed. */
  async process(attempt: JobAttempt): Promise<JobOutcome> {
    try {
      const outcome = await this.#traced(attempt);
      await this.#forgetJournal(attempt);
      return outcome;
    } catch (error) {
      // However else it ends, another attempt may come, and goes on from there.
      if (error instanceof WavepoolError && error.code === 'CANCELLED')
        await this.#forgetJournal(attempt);
      throw error;
    }
  }

  #traced(attempt: JobAttempt): Promise<JobOutcome> {
    const { jobId, data, priority } = attempt;
    const attributes = {
      'wavepool.job.id': jobId,
      'wavepool.model': data.model,
      'wavepool.task': data.task,
      'wavepool.tenant': data.tenant,
      'wavepool.priority': priority,
      'wavepool.attempt': attempt.attempt ?? 1,
      'wavepool.queue_wait_ms': Math.max(0, Date.now() - data.submittedAt),
    };
    return this.#tracing.run('job', { attributes }, async (span) => {
      this.#tracing.start('queue wait', { startedAt: data.submittedAt }).end();
      const outcome = await this.#processOnce(attempt);
      const { durationSeconds, speechSeconds, segments } = outcome;
      span.set({
        'wavepool.audio_seconds': durationSeconds,
        'wavepool.speech_seconds': speechSeconds,
        'wavepool.segments': segments,
      });
      return outcome;
    });
  }

  /** What cannot be removed now is removed when it is old. */
  async #forgetJournal({ jobId, logger }: JobAttempt): Promise<void> {
    await this.#options.results.journals.remove(jobId).catch((err: unknown) => {
      logger?.warn({ err }, 'the journal of this job could not be removed');
    });
  }

  async #processOnce(attempt: JobAttempt): Promise<JobOutcome> {
    const { results } = this.#options;
    attempt.signal.throwIfAborted();
    // A worker that died between its commit and the queue's knowing of it has done all the work.
    const key = results.keyOf(attempt.jobId);
    const earlier = await readIfThere(results, key);
    if (earlier) return outcomeOf(earlier, key);
    const result = await this.#run(attempt);
    const { committed } = await this.#tracing.run('commit', {}, async () => {
      await attempt.assertOwned();
      return results.commit(attempt.jobId, result);
    });
    return outcomeOf(committed ? result : await results.read(key), key);
  }

  async #run(attempt: JobAttempt): Promise<JobResult> {
    const startedAt = Date.now();
    const { jobId, data, signal } = attempt;
    const { runtime, ffmpeg, places, maxAudioSeconds } = this.#options;
    const model = runtime.entry(data.model);
    await using input = await resolveInput(data.input, places, signal);
    const channels = await openChannels(runtime.engine, input, ffmpeg, {
      ...(data.task === 'transcribe' ? data.options : {}),
      maxAudioSeconds,
    }).catch((error: unknown) => {
      throw namedAsSent(error, input, data.input);
    });
    const journal = await this.#openJournal(attempt, input);
    const progress = progressOf(attempt);
    let line: PartLine | undefined;
    try {
      line = data.task === 'transcribe' && data.split ? await attempt.openParts?.() : undefined;
      const parts = line && this.#dispatch(attempt, line, input);
      const finding = await this.#perform(attempt, { channels, model, journal, parts, progress });
      const { run } = finding;
      if (run.durationSeconds === 0) {
        throw new WavepoolError('INPUT_EMPTY', describeInput(data.input));
      }
      if (data.input.kind === 'path') await assertUnchanged(input);
      const timings = {
        queuedMs: Math.max(0, startedAt - data.submittedAt),
        decodeMs: Math.round(run.decodeMs),
        vadMs: Math.round(run.vadMs),
        asrMs: Math.round('asrMs' in run ? run.asrMs : 0),
        totalMs: Date.now() - startedAt,
      };
      const build = runtime.engine.build.identity;
      const createdAt = new Date();
      return buildResult(
        { jobId, data, bytes: input.bytes, channels, timings, build, createdAt },
        finding,
      );
    } finally {
      progress.end();
      await line?.close();
      await channels.close();
      await journal.close();
    }
  }

  #dispatch({ jobId, data }: JobAttempt, line: PartLine, input: ResolvedInput): PartDispatcher {
    const { model, clocks } = data;
    const { channels = 'mix' } = data.task === 'transcribe' ? data.options : {};
    // Only files of others can change: an upload is named by its content.
    const isPath = data.input.kind === 'path';
    const { bytes, modifiedAtMs } = input;
    const { busyTimeoutMs } = clocks;
    return new PartDispatcher({
      run: (part, signal) => line.run(part, signal),
      build: this.#options.runtime.engine.build.identity,
      part: {
        ...{ jobId, model, input: data.input, bytes, channels, busyTimeoutMs },
        ...(isPath ? { modifiedAtMs } : {}),
      },
    });
  }

  async #openJournal(
    { jobId, data, logger }: JobAttempt,
    input: ResolvedInput,
  ): Promise<JobJournal> {
    const journal = await JobJournal.open({
      store: this.#options.results.journals,
      jobId,
      identity: () => this.#journalIdentity.of(data, input),
      onProblem: (err) => logger?.warn({ err }, 'the journal of this job ends here'),
    });
    if (journal.size > 0) logger?.info({ results: journal.size }, 'resumed from its journal');
    return journal;
  }

  async #perform(
    attempt: JobAttempt,
    { channels: { all: channels }, model, journal, parts, progress }: Equipment,
  ): Promise<Finding> {
    const { data, signal } = attempt;
    const { detector, allowance } = this.#options;
    const common = { ...this.#requestOf(attempt), onProgress: progress.runs };
    const now = () => performance.now();
    const tracing = this.#tracing;
    const tell = (segment: SpeechSegment, index: number, said: SaidInSegment) => {
      const [start, end] = [toSeconds(segment.startSample), toSeconds(segment.endSample)];
      attempt.onSegment?.({ index, start, end, ...said });
    };
    switch (data.task) {
      case 'transcribe': {
        const onSegment = (segment: RecognizedSegment, index: number) => {
          const speaker = channels[segment.channel]?.speaker;
          const { text } = segment.result;
          tell(segment, index, { text, ...(speaker === undefined ? {} : { speaker }) });
        };
        const { waits: onWait } = progress;
        const told = { onSegment, onWait };
        const request = { ...common, options: data.options, journal, parts, ...told };
        const services = { detector, recognizer: model, allowance, now, tracing };
        const run = new TranscriptionRun(channels, request, services);
        return { task: data.task, run: await run.run(signal) };
      }
      case 'vad': {
        const onSegment = (segment: SpeechSegment, index: number) =>
          tell(segment, index, { text: '' });
        const request = { ...common, options: data.options, onSegment };
        const services = { detector: model, allowance, now, tracing };
        const [{ reader }] = channels;
        return { task: data.task, run: await runDetection(reader, request, services, signal) };
      }
      default:
        return data satisfies never;
    }
  }

  /** What every task is told about the job. */
  #requestOf({ jobId, data, priority }: JobAttempt) {
    this.#sequence += 1;
    return {
      jobId,
      sequence: this.#sequence,
      priority,
      alone: data.crashCount > 0,
      busyTimeoutMs: data.clocks.busyTimeoutMs,
    };
  }
}

/** What an attempt tells of itself while it goes on. */
interface AttemptProgress {
  /** A segment begins to wait for a slot. */
  readonly waits: () => void;
  /** Slots work on it. */
  readonly runs: (progress: Omit<JobProgress, 'phase'>) => void;
  /** Nothing is told any more. */
  readonly end: () => void;
}

function progressOf({ onProgress }: JobAttempt): AttemptProgress {
  let wait: NodeJS.Timeout | undefined;
  let toldAt = Number.NEGATIVE_INFINITY;
  const tellWait = () =>
    onProgress({ phase: 'waiting', processedSeconds: 0, totalSeconds: null, segmentsDone: 0 });
  return {
    waits: () => {
      wait ??= setTimeout(tellWait, WAIT_TOLD_AFTER_MS);
    },
    runs: (progress) => {
      clearTimeout(wait);
      const now = performance.now();
      if (now - toldAt < PROGRESS_INTERVAL_MS) return;
      toldAt = now;
      onProgress({ phase: 'running', ...progress });
    },
    end: () => clearTimeout(wait),
  };
}

function buildResult(facts: ResultFacts, finding: Finding): JobResult {
  switch (finding.task) {
    case 'transcribe':
      return buildTranscript(facts, finding.run);
    case 'vad':
      return buildSpeechActivity(facts, finding.run);
    default:
      return finding satisfies never;
  }
}

/** Where an upload or a fetched file lies here means nothing to whoever sent it. */
function namedAsSent(error: unknown, { path, name }: ResolvedInput, sent: JobInput): unknown {
  if (sent.kind === 'path' || !(error instanceof WavepoolError)) return error;
  return new WavepoolError(error.code, error.detail.replaceAll(path, name), { cause: error });
}

async function readIfThere(results: ResultStore, key: string): Promise<JobResult | undefined> {
  try {
    return await results.read(key);
  } catch (error) {
    if (error instanceof WavepoolError && error.code === 'RESULT_NOT_FOUND') return undefined;
    throw error;
  }
}

/**
 * A file that was written to while it was read gives a result of nothing that ever existed. Only files of others can
 * change: an upload is named by its content, and the time it shows is that of its last use.
 */
async function assertUnchanged(input: ResolvedInput): Promise<void> {
  const now = await stat(input.path).catch(() => undefined);
  if (now && now.size === input.bytes && now.mtimeMs === input.modifiedAtMs) return;
  throw new WavepoolError('INPUT_CHANGED', input.path);
}

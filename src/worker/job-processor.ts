/**
 * What a worker does with one job, from the queue's data to the committed result. Knows nothing of BullMQ: the caller
 * gives it the job's data, a signal and two callbacks, and maps what it throws to the queue.
 */
import { stat } from 'node:fs/promises';
import { WavepoolError } from '../core/errors.ts';
import type { JobData, JobInput, JobOutcome, JobProgress, PartialSegment } from '../core/job.ts';
import type { JobResult } from '../core/job-result.ts';
import type { Logger } from '../core/logger.ts';
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
import { type Detection, runDetection } from './detection.ts';
import { type InputChannels, openChannels } from './input-channels.ts';
import { JobJournal } from './journal.ts';
import { JournalIdentity } from './journal-identity.ts';
import type { RecognizedSegment } from './pending-segments.ts';
import { outcomeOf, type ResultFacts, toSeconds } from './result-facts.ts';
import { buildSpeechActivity } from './speech-activity-builder.ts';
import type { SpeechSegment } from './speech-segmenter.ts';
import { buildTranscript } from './transcript-builder.ts';
import { type Transcription, TranscriptionRun } from './transcription.ts';

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
}

export interface JobAttempt {
  readonly jobId: string;
  readonly data: JobData;
  readonly priority: number;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: JobProgress) => void;
  /** Told each segment when it is done. */
  readonly onSegment?: ((segment: PartialSegment) => void) | undefined;
  /** Told what the job's journal is worth. */
  readonly logger?: Logger | undefined;
  /** Throws when the job is no longer this worker's: its result must not be written then. */
  readonly assertOwned: () => Promise<void>;
}

type SaidInSegment = Pick<PartialSegment, 'text' | 'speaker'>;

/** What a run found, with what the job asked for. */
type Finding =
  | { readonly task: 'transcribe'; readonly run: Transcription }
  | { readonly task: 'vad'; readonly run: Detection };

export class JobProcessor {
  readonly #options: JobProcessorOptions;
  readonly #journalIdentity: JournalIdentity;
  #sequence = 0;

  constructor(options: JobProcessorOptions) {
    this.#options = options;
    this.#journalIdentity = new JournalIdentity(options);
  }

  /** @throws {WavepoolError} why the job failed. */
  async process(attempt: JobAttempt): Promise<JobOutcome> {
    try {
      const outcome = await this.#processOnce(attempt);
      await this.#forgetJournal(attempt);
      return outcome;
    } catch (error) {
      // However else it ends, another attempt may come, and goes on from there.
      if (error instanceof WavepoolError && error.code === 'CANCELLED')
        await this.#forgetJournal(attempt);
      throw error;
    }
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
    await attempt.assertOwned();
    const { committed } = await results.commit(attempt.jobId, result);
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
    try {
      const finding = await this.#perform(attempt, channels, model, journal, progress);
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
      await channels.close();
      await journal.close();
    }
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
    { voices }: InputChannels,
    model: ModelEntry,
    journal: JobJournal,
    progress: AttemptProgress,
  ): Promise<Finding> {
    const { data, signal } = attempt;
    const { detector, allowance } = this.#options;
    const common = { ...this.#requestOf(attempt), onProgress: progress.runs };
    const now = () => performance.now();
    const tell = (segment: SpeechSegment, index: number, said: SaidInSegment) => {
      const [start, end] = [toSeconds(segment.startSample), toSeconds(segment.endSample)];
      attempt.onSegment?.({ index, start, end, ...said });
    };
    switch (data.task) {
      case 'transcribe': {
        const onSegment = (segment: RecognizedSegment, index: number) => {
          const speaker = voices[segment.channel]?.speaker;
          const { text } = segment.result;
          tell(segment, index, { text, ...(speaker === undefined ? {} : { speaker }) });
        };
        const { waits: onWait } = progress;
        const request = { ...common, options: data.options, journal, onSegment, onWait };
        const services = { detector, recognizer: model, allowance, now };
        const run = new TranscriptionRun(voices, request, services);
        return { task: data.task, run: await run.run(signal) };
      }
      case 'vad': {
        const onSegment = (segment: SpeechSegment, index: number) =>
          tell(segment, index, { text: '' });
        const request = { ...common, options: data.options, onSegment };
        const services = { detector: model, allowance, now };
        const [{ reader }] = voices;
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

/**
 * One transcription job inside a worker: decode → speech windows → segments → recognition, all at once.
 *
 * Decoding runs ahead of recognition by the job's allowance of audio. Detection and recognition go through batchers
 * that this job shares with every other job of the worker; what the job keeps of its own is the detector's state, the
 * segmenter and the segments that are not finished yet. The first failure of any part ends the others.
 *
 * Channels that are transcribed one by one are searched side by side, each step of one beside the same step of the others,
 * and their segments go to recognition in one order by time: what comes out depends on the input alone.
 */
import { setMaxListeners } from 'node:events';
import type { TranscribeOptions } from '../../core/job/job.ts';
import { NO_TRACING } from '../../core/tracing.ts';
import {
  assertModelDoes,
  detectsLanguage,
  jobTaskOf,
  type RecognizerOptions,
  recognizerOptions,
  spokenLanguage,
} from '../../core/worker/model-abilities.ts';
import {
  type ModelInfo,
  SAMPLE_RATE,
  type TaskOptions,
  type TaskResult,
} from '../../runtime/engine.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { DecodeAllowance } from '../audio/decode-allowance.ts';
import type { InputChannel } from '../audio/input-channels.ts';
import type { SegmentJournal } from '../journal/journal.ts';
import type { PartDispatcher } from '../parts/part-dispatcher.ts';
import { findWords } from '../speech/find-words.ts';
import { type ChannelSegment, SegmentMerger } from '../speech/segment-merger.ts';
import {
  DECODE_STEP_SECONDS,
  type SearchRequest,
  type SearchServices,
  SpeechSearch,
} from '../speech/speech-search.ts';
import { JobLanguage } from './job-language.ts';
import { PendingSegments, type RecognizedSegment } from './pending-segments.ts';

/** What a job shares with the others of its worker. */
export interface TranscriptionServices extends SearchServices {
  readonly recognizer: ModelEntry;
  readonly allowance: DecodeAllowance;
}

export interface TranscriptionRequest extends SearchRequest {
  readonly options: TranscribeOptions;
  /** Knows what an earlier attempt recognized. */
  readonly journal?: SegmentJournal | undefined;
  /** Recognizes segments in other workers; without it, this one does. */
  readonly parts?: Pick<PartDispatcher, 'recognize'> | undefined;
  /** Called when a segment begins to wait for a slot. */
  readonly onWait?: (() => void) | undefined;
  /** Called when a slot picks up a segment, and when a segment is done. */
  readonly onProgress: (progress: TranscriptionProgress) => void;
  /** Called when a segment is done, in the order in which they are. */
  readonly onSegment?: ((segment: RecognizedSegment, index: number) => void) | undefined;
}

export interface TranscriptionProgress {
  readonly processedSeconds: number;
  /** Known once the input has been decoded to its end. */
  readonly totalSeconds: number | null;
  readonly segmentsDone: number;
}

export interface Transcription {
  readonly durationSeconds: number;
  /** Summed over all channels. */
  readonly speechSeconds: number;
  /** In the order of their times. */
  readonly segments: readonly RecognizedSegment[];
  /** The language that was given, detected, or is the only one of the model; undefined when it is not known. */
  readonly language: string | undefined;
  /** Segments in which the recognizer first found no words, and had to name the likeliest. */
  readonly guessedSegments: number;
  readonly decodeMs: number;
  readonly vadMs: number;
  readonly asrMs: number;
}

/** What the job knows once its models are loaded. */
interface Prepared {
  /** One for each channel. */
  readonly searches: readonly SpeechSearch[];
  readonly options: RecognizerOptions;
  readonly language: JobLanguage;
  readonly info: ModelInfo;
}

export class TranscriptionRun {
  readonly #channels: readonly InputChannel[];
  readonly #request: TranscriptionRequest;
  readonly #services: TranscriptionServices;
  readonly #merger = new SegmentMerger();
  readonly #pending = new PendingSegments();
  /** Aborted by the job's own signal or by the first failure inside. */
  readonly #abort = new AbortController();
  #guessedSegments = 0;
  #asrStartedAt: number | undefined;
  #prepared: Prepared | undefined;

  constructor(
    channels: readonly InputChannel[],
    request: TranscriptionRequest,
    services: TranscriptionServices,
  ) {
    this.#channels = channels;
    this.#request = request;
    this.#services = services;
    // Every pending segment listens to it. Node takes more than ten listeners for a leak.
    setMaxListeners(0, this.#abort.signal);
  }

  /**
   * @throws {WavepoolError} what ended the job: OPTION_UNSUPPORTED, a code of decoding, recognition, CANCELLED or a timeout.
   */
  async run(signal: AbortSignal): Promise<Transcription> {
    // Each channel counts as one job, because it holds as much audio.
    const leave = this.#channels.map(() => this.#services.allowance.enter());
    const forward = () => this.#abort.abort(signal.reason);
    signal.addEventListener('abort', forward, { once: true });
    if (signal.aborted) forward();
    const expectation = this.#services.recognizer.batcher.expectMore();
    try {
      this.#prepared = await this.#prepare();
      await this.#produce(this.#prepared);
      expectation.done();
      this.#prepared.language.decideNow();
      await this.#pending.allSettled();
      this.#abort.signal.throwIfAborted();
      return this.#assemble(this.#prepared);
    } catch (error) {
      this.#abort.abort(error);
      // Native code may still read the samples: it must have let go of them before they are freed.
      await this.#pending.allSettled();
      throw error;
    } finally {
      expectation.done();
      signal.removeEventListener('abort', forward);
      for (const each of leave) each();
    }
  }

  /** Waits until both models are loaded, and reads what the job has to know of them. */
  async #prepare(): Promise<Prepared> {
    const { detector, recognizer } = this.#services;
    const { busyTimeoutMs, options: wishes } = this.#request;
    const { signal } = this.#abort;
    const admission = { signal, busyTimeoutMs };
    const [{ info }, ...detectors] = await Promise.all([
      recognizer.prepare(admission),
      ...this.#channels.map(() => detector.prepare(admission)),
    ]);
    assertModelDoes('transcribe', recognizer.id, jobTaskOf(info.task));
    const options = recognizerOptions(wishes, recognizer.id, info);
    const given = spokenLanguage(wishes, recognizer.id, info);
    const language = new JobLanguage({ given, detects: detectsLanguage(info), signal });
    const longestSeconds = info.maxSegmentSeconds || undefined;
    const searches = this.#channels.flatMap(({ reader }, channel) => {
      const vad = detectors[channel];
      if (vad === undefined) return [];
      return [new SpeechSearch(reader, this.#request, this.#services, vad, longestSeconds)];
    });
    return { searches, options, language, info };
  }

  /** Decodes the input to its end and sends every stretch of speech to recognition. */
  async #produce(prepared: Prepared): Promise<void> {
    while (!this.#ended) {
      await this.#waitForRoom(prepared);
      await this.#step(prepared);
      const horizon = this.#ended ? Number.POSITIVE_INFINITY : keepFrom(prepared);
      for (const segment of this.#merger.take(horizon)) this.#recognize(segment, prepared);
    }
  }

  get #ended(): boolean {
    return this.#channels.every(({ reader }) => reader.audio.ended);
  }

  /** Runs one step of every channel. Settles when no channel is at work any more. */
  async #step({ searches }: Prepared): Promise<void> {
    const { signal } = this.#abort;
    const steps = searches.map(async (search, channel) => {
      if (search.ended) return;
      try {
        await search.step(signal, (segment) => this.#merger.add({ ...segment, channel }));
      } catch (error) {
        this.#abort.abort(error);
        throw error;
      }
    });
    await Promise.allSettled(steps);
    signal.throwIfAborted();
  }

  /** Waits until recognition has freed enough audio for another step. */
  async #waitForRoom(prepared: Prepared): Promise<void> {
    for (;;) {
      this.#abort.signal.throwIfAborted();
      const needed = this.#firstNeededSample(prepared);
      for (const { reader } of this.#channels) reader.audio.release(needed);
      const held = this.#endSample - needed;
      const allowed = this.#services.allowance.perJobSeconds - DECODE_STEP_SECONDS;
      if (held <= allowed * SAMPLE_RATE || this.#pending.firstNeededSample === undefined) return;
      prepared.language.decideNow();
      await this.#pending.oldestSettled();
    }
  }

  get #endSample(): number {
    return Math.max(...this.#channels.map(({ reader }) => reader.audio.endSample));
  }

  #firstNeededSample(prepared: Prepared): number {
    return Math.min(
      keepFrom(prepared),
      this.#merger.firstHeldSample,
      this.#pending.firstNeededSample ?? Number.POSITIVE_INFINITY,
    );
  }

  #recognize(segment: ChannelSegment, prepared: Prepared): void {
    this.#asrStartedAt ??= this.#services.now();
    const ended = this.#pending.add(
      segment,
      this.#watched(this.#wordsOf(segment, prepared), segment),
    );
    void ended.then(() => this.#reportProgress());
  }

  async #wordsOf(
    segment: ChannelSegment,
    { options, language: jobLanguage, info }: Prepared,
  ): Promise<TaskResult> {
    const takesLanguage = info.optionNames.includes('language');
    const seconds = (segment.endSample - segment.startSample) / SAMPLE_RATE;
    const { result, guessed } = await jobLanguage.recognize(seconds, (language) => {
      const told = language === undefined || !takesLanguage ? options : { ...options, language };
      return findWords({ ...told }, (all) => this.#submit(segment, all));
    });
    if (guessed) this.#guessedSegments += 1;
    return result;
  }

  async #submit(segment: ChannelSegment, options: TaskOptions): Promise<TaskResult> {
    const { journal } = this.#request;
    const known = journal?.find(segment, options);
    if (known !== undefined) return known;
    const result = await this.#run(segment, options);
    journal?.add(segment, options, result);
    return result;
  }

  #run(segment: ChannelSegment, options: TaskOptions): Promise<TaskResult> {
    const { parts } = this.#request;
    const here = () => this.#runHere(segment, options);
    if (parts === undefined) return here();
    return parts.recognize(segment, options, { signal: this.#abort.signal, here });
  }

  #runHere({ startSample, endSample, channel }: ChannelSegment, options: TaskOptions) {
    const audio = this.#channels[channel]?.reader.audio;
    if (audio === undefined) throw new RangeError(`no channel ${channel}`);
    const { jobId, sequence, priority, alone, busyTimeoutMs } = this.#request;
    const { recognizer, tracing = NO_TRACING } = this.#services;
    const times = {
      'wavepool.start_seconds': startSample / SAMPLE_RATE,
      'wavepool.end_seconds': endSample / SAMPLE_RATE,
    };
    this.#request.onWait?.();
    return tracing.run('recognize', { attributes: times }, (span) =>
      recognizer.submit(
        {
          jobId,
          jobSequence: sequence,
          priority,
          alone,
          // Items of one batch carry their own options: none changes the graph.
          key: 'asr',
          task: { audio, startSample, endSample, options },
          jobRemainingSeconds: (audio.endSample - startSample) / SAMPLE_RATE,
          span,
          onStart: () => this.#reportProgress(),
        },
        { signal: this.#abort.signal, busyTimeoutMs },
      ),
    );
  }

  /** A failed segment ends the job at once, also while decoding goes on. Call before the segment is added. */
  async #watched(recognition: Promise<TaskResult>, segment: ChannelSegment): Promise<TaskResult> {
    const index = this.#pending.total;
    try {
      const result = await recognition;
      this.#request.onSegment?.({ ...segment, result }, index);
      return result;
    } catch (error) {
      this.#abort.abort(error);
      throw error;
    }
  }

  #reportProgress(): void {
    const detected = this.#prepared?.searches.map(({ detectedSamples }) => detectedSamples) ?? [0];
    const needed = this.#pending.firstNeededSample ?? Math.min(...detected);
    this.#request.onProgress({
      processedSeconds: needed / SAMPLE_RATE,
      totalSeconds: this.#ended ? this.#endSample / SAMPLE_RATE : null,
      segmentsDone: this.#pending.done,
    });
  }

  #assemble({ searches, language, info }: Prepared): Transcription {
    const now = this.#services.now();
    const segments = this.#pending.recognized();
    const spoken = segments.find(({ result }) => result.text !== '' && result.language !== '');
    const only = info.languages.length === 1 ? info.languages[0] : undefined;
    const speechSamples = searches.reduce((sum, search) => sum + search.speechSamples, 0);
    return {
      durationSeconds: this.#endSample / SAMPLE_RATE,
      speechSeconds: speechSamples / SAMPLE_RATE,
      segments,
      language: language.language ?? spoken?.result.language ?? only,
      guessedSegments: this.#guessedSegments,
      decodeMs: Math.max(...searches.map(({ decodeMs }) => decodeMs)),
      vadMs: Math.max(...searches.map(({ vadMs }) => vadMs)),
      asrMs: this.#asrStartedAt === undefined ? 0 : now - this.#asrStartedAt,
    };
  }
}

/** Audio before this sample will not be part of any later segment, of any channel. */
function keepFrom({ searches }: Prepared): number {
  return Math.min(
    ...searches.map((search) => (search.ended ? Number.POSITIVE_INFINITY : search.keepFrom)),
  );
}

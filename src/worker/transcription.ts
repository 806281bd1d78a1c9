/**
 * One transcription job inside a worker: decode → speech windows → segments → recognition, all at once.
 *
 * Decoding runs ahead of recognition by the job's allowance of audio. Detection and recognition go through batchers
 * that this job shares with every other job of the worker; what the job keeps of its own is the detector's state, the
 * segmenter and the segments that are not finished yet. The first failure of any part ends the others.
 */
import { setMaxListeners } from 'node:events';
import type { TranscribeOptions } from '../core/job.ts';
import {
  type ModelInfo,
  SAMPLE_RATE,
  type TaskOptions,
  type TaskResult,
  type TaskState,
} from '../runtime/engine.ts';
import type { ModelEntry } from '../runtime/model-entry.ts';
import type { DecodeAllowance } from './decode-allowance.ts';
import type { InputReader } from './input-reader.ts';
import { PendingSegments, type RecognizedSegment } from './pending-segments.ts';
import { type SpeechSegment, SpeechSegmenter } from './speech-segmenter.ts';

/** Audio decoded and searched for speech per step. */
export const DECODE_STEP_SECONDS = 30;

/** What a job shares with the others of its worker. */
export interface TranscriptionServices {
  readonly detector: ModelEntry;
  readonly recognizer: ModelEntry;
  readonly allowance: DecodeAllowance;
  readonly now: () => number;
}

export interface TranscriptionRequest {
  readonly jobId: string;
  /** Order of arrival at this worker. */
  readonly sequence: number;
  readonly priority: number;
  /** Run in batches of one: a worker has crashed on this job before. */
  readonly alone: boolean;
  readonly options: TranscribeOptions;
  readonly busyTimeoutMs: number;
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
  readonly speechSeconds: number;
  readonly segments: readonly RecognizedSegment[];
  /** Segments in which the recognizer first found no words, and had to name the likeliest. */
  readonly guessedSegments: number;
  readonly decodeMs: number;
  readonly vadMs: number;
  readonly asrMs: number;
}

/** How the job finds speech: with the models as they were when it began. */
interface SpeechSearch {
  readonly segmenter: SpeechSegmenter;
  /** Stays the job's own, whatever becomes of the detector's pool meanwhile. */
  readonly state: TaskState | undefined;
  readonly windowSamples: number;
}

export class TranscriptionRun {
  readonly #reader: InputReader;
  readonly #request: TranscriptionRequest;
  readonly #services: TranscriptionServices;
  readonly #pending = new PendingSegments();
  /** Aborted by the job's own signal or by the first failure inside. */
  readonly #abort = new AbortController();
  /** Samples that detection has seen. */
  #detected = 0;
  #decodeMs = 0;
  #vadMs = 0;
  #guessedSegments = 0;
  #asrStartedAt: number | undefined;
  #search: SpeechSearch | undefined;

  constructor(reader: InputReader, request: TranscriptionRequest, services: TranscriptionServices) {
    this.#reader = reader;
    this.#request = request;
    this.#services = services;
    // Every pending segment listens, and the allowance bounds those; Node takes more than ten for a leak.
    setMaxListeners(0, this.#abort.signal);
  }

  /** @throws {WavepoolError} what ended the job: a code of decoding, recognition, CANCELLED or a timeout. */
  async run(signal: AbortSignal): Promise<Transcription> {
    const leave = this.#services.allowance.enter();
    const forward = () => this.#abort.abort(signal.reason);
    signal.addEventListener('abort', forward, { once: true });
    if (signal.aborted) forward();
    const expectation = this.#services.recognizer.batcher.expectMore();
    try {
      this.#search = await this.#openSearch();
      await this.#produce(this.#search);
      expectation.done();
      await this.#pending.allSettled();
      this.#abort.signal.throwIfAborted();
      return this.#assemble(this.#search);
    } catch (error) {
      this.#abort.abort(error);
      // Native code may still read the samples: it must have let go of them before they are freed.
      await this.#pending.allSettled();
      throw error;
    } finally {
      expectation.done();
      signal.removeEventListener('abort', forward);
      leave();
    }
  }

  /** Loads both models where they are not, so that what the job reads of them is theirs. */
  async #openSearch(): Promise<SpeechSearch> {
    const { detector, recognizer } = this.#services;
    const { busyTimeoutMs } = this.#request;
    const admission = { signal: this.#abort.signal, busyTimeoutMs };
    const [vad, asr] = await Promise.all([
      detector.prepare(admission),
      recognizer.prepare(admission),
    ]);
    const segmenter = createSegmenter(this.#request.options, vad.info, asr.info);
    return { segmenter, state: vad.state, windowSamples: vad.info.windowSamples };
  }

  /** Decodes the input to its end and sends every stretch of speech to recognition. */
  async #produce(search: SpeechSearch): Promise<void> {
    const { audio } = this.#reader;
    const { signal } = this.#abort;
    while (!audio.ended) {
      await this.#waitForRoom();
      const startedAt = this.#services.now();
      await this.#reader.decodeUntil(audio.endSample + DECODE_STEP_SECONDS * SAMPLE_RATE, signal);
      this.#decodeMs += this.#services.now() - startedAt;
      await this.#detectSpeech(search);
    }
    for (const segment of search.segmenter.finish(audio.endSample)) this.#recognize(segment);
  }

  /** Waits until recognition has freed enough audio for another step. */
  async #waitForRoom(): Promise<void> {
    for (;;) {
      this.#abort.signal.throwIfAborted();
      this.#releaseAudio();
      const held = this.#reader.audio.endSample - this.#firstNeededSample();
      const allowed = this.#services.allowance.perJobSeconds - DECODE_STEP_SECONDS;
      if (held <= allowed * SAMPLE_RATE || this.#pending.firstNeededSample === undefined) return;
      await this.#pending.oldestSettled();
    }
  }

  #firstNeededSample(): number {
    const keepFrom = this.#search?.segmenter.keepFrom ?? 0;
    return Math.min(keepFrom, this.#pending.firstNeededSample ?? Infinity);
  }

  #releaseAudio(): void {
    this.#reader.audio.release(this.#firstNeededSample());
  }

  /** Runs detection over all whole windows that are new; at the end of the input over the rest, too. */
  async #detectSpeech({ segmenter, state, windowSamples }: SpeechSearch): Promise<void> {
    const { audio } = this.#reader;
    const fresh = audio.endSample - this.#detected;
    const endSample = audio.ended
      ? audio.endSample
      : this.#detected + Math.floor(fresh / windowSamples) * windowSamples;
    if (endSample === this.#detected) return;
    const startedAt = this.#services.now();
    const startSample = this.#detected;
    const { probabilities } = await this.#services.detector.submit(
      {
        ...this.#batchIdentity('vad'),
        task: { audio, startSample, endSample, state, options: {} },
        jobRemainingSeconds: 0,
      },
      { signal: this.#abort.signal, busyTimeoutMs: this.#request.busyTimeoutMs },
    );
    this.#vadMs += this.#services.now() - startedAt;
    this.#detected = endSample;
    for (const segment of segmenter.push(probabilities)) this.#recognize(segment);
  }

  #batchIdentity(key: string) {
    const { jobId, sequence, priority, alone } = this.#request;
    return { jobId, jobSequence: sequence, priority, alone, key };
  }

  #recognize(segment: SpeechSegment): void {
    this.#asrStartedAt ??= this.#services.now();
    const ended = this.#pending.add(segment, this.#watched(this.#findWords(segment), segment));
    void ended.then(() => this.#reportProgress());
  }

  /** Where there is speech there are words: when none are found, the recognizer is asked again for the likeliest. */
  async #findWords(segment: SpeechSegment): Promise<TaskResult> {
    const result = await this.#submit(segment, {});
    if (result.text !== '') return result;
    this.#guessedSegments += 1;
    return this.#submit(segment, { suppressBlank: true });
  }

  #submit(segment: SpeechSegment, options: TaskOptions): Promise<TaskResult> {
    const { audio } = this.#reader;
    return this.#services.recognizer.submit(
      {
        ...this.#batchIdentity('asr'),
        task: { audio, ...segment, options },
        jobRemainingSeconds: (audio.endSample - segment.startSample) / SAMPLE_RATE,
        onStart: () => this.#reportProgress(),
      },
      { signal: this.#abort.signal, busyTimeoutMs: this.#request.busyTimeoutMs },
    );
  }

  /** A failed segment ends the job at once, also while decoding goes on. Call before the segment is added. */
  async #watched(recognition: Promise<TaskResult>, segment: SpeechSegment): Promise<TaskResult> {
    const index = this.#pending.total;
    try {
      const result = await recognition;
      const { text, truncated } = result;
      this.#request.onSegment?.({ ...segment, text, truncated }, index);
      return result;
    } catch (error) {
      this.#abort.abort(error);
      throw error;
    }
  }

  #reportProgress(): void {
    const { audio } = this.#reader;
    const needed = this.#pending.firstNeededSample ?? this.#detected;
    this.#request.onProgress({
      processedSeconds: needed / SAMPLE_RATE,
      totalSeconds: audio.ended ? audio.endSample / SAMPLE_RATE : null,
      segmentsDone: this.#pending.done,
    });
  }

  #assemble({ segmenter }: SpeechSearch): Transcription {
    const now = this.#services.now();
    return {
      durationSeconds: this.#reader.audio.endSample / SAMPLE_RATE,
      speechSeconds: segmenter.speechSamples / SAMPLE_RATE,
      segments: this.#pending.recognized(),
      guessedSegments: this.#guessedSegments,
      decodeMs: this.#decodeMs,
      vadMs: this.#vadMs,
      asrMs: this.#asrStartedAt === undefined ? 0 : now - this.#asrStartedAt,
    };
  }
}

function createSegmenter(
  options: TranscribeOptions,
  detector: ModelInfo,
  recognizer: ModelInfo,
): SpeechSegmenter {
  const samples = (ms: number) => Math.round((ms * SAMPLE_RATE) / 1_000);
  const modelLimit = recognizer.maxSegmentSeconds || Number.POSITIVE_INFINITY;
  const longest = Math.min(options.maxSegmentSeconds ?? modelLimit, modelLimit);
  return new SpeechSegmenter({
    windowSamples: detector.windowSamples,
    threshold: options.vad.threshold,
    minSpeechSamples: samples(options.vad.minSpeechMs),
    minSilenceSamples: samples(options.vad.minSilenceMs),
    targetSamples: samples(options.vad.targetSegmentMs),
    longSilenceSamples: samples(options.vad.longSilenceMs),
    padSamples: samples(options.vad.padMs),
    maxSegmentSamples: samples(1_000 * longest),
  });
}

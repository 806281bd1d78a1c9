/**
 * One transcription job inside a worker: decode → speech windows → segments → recognition, all at once.
 *
 * Decoding runs ahead of recognition by the job's allowance of audio. Detection and recognition go through batchers
 * that this job shares with every other job of the worker; what the job keeps of its own is the detector's state, the
 * segmenter and the segments that are not finished yet. The first failure of any part ends the others.
 */
import { setMaxListeners } from 'node:events';
import type { TranscribeOptions } from '../core/job.ts';
import { assertModelDoes, jobTaskOf } from '../core/model-task.ts';
import { SAMPLE_RATE, type TaskOptions, type TaskResult } from '../runtime/engine.ts';
import type { ModelEntry } from '../runtime/model-entry.ts';
import type { DecodeAllowance } from './decode-allowance.ts';
import { findWords } from './find-words.ts';
import type { InputReader } from './input-reader.ts';
import type { SegmentJournal } from './journal.ts';
import { PendingSegments, type RecognizedSegment } from './pending-segments.ts';
import {
  DECODE_STEP_SECONDS,
  type SearchRequest,
  type SearchServices,
  SpeechSearch,
} from './speech-search.ts';
import type { SpeechSegment } from './speech-segmenter.ts';

/** What a job shares with the others of its worker. */
export interface TranscriptionServices extends SearchServices {
  readonly recognizer: ModelEntry;
  readonly allowance: DecodeAllowance;
}

export interface TranscriptionRequest extends SearchRequest {
  readonly options: TranscribeOptions;
  /** What an earlier attempt recognized. */
  readonly journal?: SegmentJournal | undefined;
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

export class TranscriptionRun {
  readonly #reader: InputReader;
  readonly #request: TranscriptionRequest;
  readonly #services: TranscriptionServices;
  readonly #pending = new PendingSegments();
  /** Aborted by the job's own signal or by the first failure inside. */
  readonly #abort = new AbortController();
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
    const [vad, { info }] = await Promise.all([
      detector.prepare(admission),
      recognizer.prepare(admission),
    ]);
    assertModelDoes('transcribe', recognizer.id, jobTaskOf(info.task));
    const longestSeconds = info.maxSegmentSeconds || undefined;
    return new SpeechSearch(this.#reader, this.#request, this.#services, vad, longestSeconds);
  }

  /** Decodes the input to its end and sends every stretch of speech to recognition. */
  async #produce(search: SpeechSearch): Promise<void> {
    const { audio } = this.#reader;
    const { signal } = this.#abort;
    while (!audio.ended) {
      await this.#waitForRoom();
      await search.step(signal, (segment) => this.#recognize(segment));
    }
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
    return Math.min(this.#search?.keepFrom ?? 0, this.#pending.firstNeededSample ?? Infinity);
  }

  #releaseAudio(): void {
    this.#reader.audio.release(this.#firstNeededSample());
  }

  #recognize(segment: SpeechSegment): void {
    this.#asrStartedAt ??= this.#services.now();
    const ended = this.#pending.add(segment, this.#watched(this.#wordsOf(segment), segment));
    void ended.then(() => this.#reportProgress());
  }

  async #wordsOf(segment: SpeechSegment): Promise<TaskResult> {
    const { result, guessed } = await findWords((options) => this.#submit(segment, options));
    if (guessed) this.#guessedSegments += 1;
    return result;
  }

  async #submit(segment: SpeechSegment, options: TaskOptions): Promise<TaskResult> {
    const { journal } = this.#request;
    const known = journal?.find(segment, options);
    if (known !== undefined) return known;
    const result = await this.#run(segment, options);
    journal?.add(segment, options, result);
    return result;
  }

  #run({ startSample, endSample }: SpeechSegment, options: TaskOptions): Promise<TaskResult> {
    const { audio } = this.#reader;
    const { jobId, sequence, priority, alone, busyTimeoutMs } = this.#request;
    return this.#services.recognizer.submit(
      {
        jobId,
        jobSequence: sequence,
        priority,
        alone,
        key: 'asr',
        task: { audio, startSample, endSample, options },
        jobRemainingSeconds: (audio.endSample - startSample) / SAMPLE_RATE,
        onStart: () => this.#reportProgress(),
      },
      { signal: this.#abort.signal, busyTimeoutMs },
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
    const needed = this.#pending.firstNeededSample ?? this.#search?.detectedSamples ?? 0;
    this.#request.onProgress({
      processedSeconds: needed / SAMPLE_RATE,
      totalSeconds: audio.ended ? audio.endSample / SAMPLE_RATE : null,
      segmentsDone: this.#pending.done,
    });
  }

  #assemble(search: SpeechSearch): Transcription {
    const now = this.#services.now();
    return {
      durationSeconds: this.#reader.audio.endSample / SAMPLE_RATE,
      speechSeconds: search.speechSamples / SAMPLE_RATE,
      segments: this.#pending.recognized(),
      guessedSegments: this.#guessedSegments,
      decodeMs: search.decodeMs,
      vadMs: search.vadMs,
      asrMs: this.#asrStartedAt === undefined ? 0 : now - this.#asrStartedAt,
    };
  }
}

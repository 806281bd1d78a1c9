/**
 * Finds the speech in one input: decodes it step by step, runs the detector over every new window and cuts segments.
 *
 * Detection goes through the batcher that this job shares with every other job of the worker; what the job keeps of its
 * own is the detector's state and the segmenter.
 */
import type { DetectionOptions } from '../../core/job/job.ts';
import { NO_TRACING, type Span, type Tracing } from '../../core/tracing.ts';
import { assertModelDoes, jobTaskOf } from '../../core/worker/model-abilities.ts';
import { type ModelInfo, SAMPLE_RATE, type TaskState } from '../../runtime/engine.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { InputReader } from '../audio/input-reader.ts';
import { createSegmenter, type SpeechSegment, type SpeechSegmenter } from './speech-segmenter.ts';

/** Audio decoded and searched for speech per step. */
export const DECODE_STEP_SECONDS = 30;

/** What the batchers have to know of the job. */
export interface SearchRequest {
  readonly jobId: string;
  /** Order of arrival at this worker. */
  readonly sequence: number;
  readonly priority: number;
  /** Whether its segments run in batches of their own, because a worker has crashed on this job before. */
  readonly alone: boolean;
  readonly options: DetectionOptions;
  readonly busyTimeoutMs: number;
}

/** What a job reads of the detector before it begins. */
export interface PreparedDetector {
  readonly info: ModelInfo;
  /** The state of the detector for this job alone. */
  readonly state: TaskState | undefined;
}

export interface SearchServices {
  readonly detector: ModelEntry;
  readonly now: () => number;
  /** @defaultValue none */
  readonly tracing?: Tracing | undefined;
}

export class SpeechSearch {
  readonly #reader: InputReader;
  readonly #request: SearchRequest;
  readonly #services: SearchServices;
  readonly #state: TaskState | undefined;
  readonly #windowSamples: number;
  readonly #segmenter: SpeechSegmenter;
  #detected = 0;
  #decodeMs = 0;
  #vadMs = 0;

  /**
   * @param longestSeconds a second bound on the length of a segment, such as that of a recognizer
   * @throws {WavepoolError} TASK_UNSUPPORTED
   */
  constructor(
    reader: InputReader,
    request: SearchRequest,
    services: SearchServices,
    { info, state }: PreparedDetector,
    longestSeconds = Number.POSITIVE_INFINITY,
  ) {
    assertModelDoes('vad', services.detector.id, jobTaskOf(info.task));
    this.#reader = reader;
    this.#request = request;
    this.#services = services;
    this.#state = state;
    this.#windowSamples = info.windowSamples;
    const { vad, maxSegmentSeconds = longestSeconds } = request.options;
    this.#segmenter = createSegmenter({
      vad,
      windowSamples: this.#windowSamples,
      longestSeconds: Math.min(maxSegmentSeconds, longestSeconds),
    });
  }

  /** Whether the input has been decoded to its end. */
  get ended(): boolean {
    return this.#reader.audio.ended;
  }

  /** Samples that detection has seen. */
  get detectedSamples(): number {
    return this.#detected;
  }

  /** Audio before this sample will not be part of any later segment. */
  get keepFrom(): number {
    return this.#segmenter.keepFrom;
  }

  /** Samples in the segments given out so far, padding excluded. */
  get speechSamples(): number {
    return this.#segmenter.speechSamples;
  }

  get decodeMs(): number {
    return this.#decodeMs;
  }

  get vadMs(): number {
    return this.#vadMs;
  }

  /**
   * Decodes the next piece and searches it. Call until `audio.ended`.
   * @param take is called with each segment that ended in the piece, in the turn in which `detectedSamples` passes it. With
   *   the last piece that includes the segment which the end of the input cut off
   * @throws {WavepoolError} a code of decoding or detection, CANCELLED, BUSY_TIMEOUT
   */
  async step(signal: AbortSignal, take: (segment: SpeechSegment) => void): Promise<void> {
    const { audio } = this.#reader;
    const { now } = this.#services;
    const startedAt = now();
    const upTo = audio.endSample + DECODE_STEP_SECONDS * SAMPLE_RATE;
    await this.#traced('decode', async () => this.#reader.decodeUntil(upTo, signal));
    this.#decodeMs += now() - startedAt;
    const endSample = this.#searchable();
    const probabilities = endSample > this.#detected ? await this.#detect(endSample, signal) : [];
    this.#detected = endSample;
    for (const segment of this.#segmenter.push(probabilities)) take(segment);
    if (audio.ended) for (const segment of this.#segmenter.finish(audio.endSample)) take(segment);
  }

  #traced<Result>(name: string, work: (span: Span) => Promise<Result>): Promise<Result> {
    const { tracing = NO_TRACING } = this.#services;
    const fromSeconds = this.#reader.audio.endSample / SAMPLE_RATE;
    return tracing.run(name, { attributes: { 'wavepool.decoded_seconds': fromSeconds } }, work);
  }

  /** One past the last sample that can be searched: whole windows only, except at the end of the input. */
  #searchable(): number {
    const { audio } = this.#reader;
    if (audio.ended) return audio.endSample;
    const windows = Math.floor((audio.endSample - this.#detected) / this.#windowSamples);
    return this.#detected + windows * this.#windowSamples;
  }

  /** Runs the detector. @returns one probability for each new window */
  async #detect(endSample: number, signal: AbortSignal): Promise<ArrayLike<number>> {
    const { audio } = this.#reader;
    const { detector, now } = this.#services;
    const { jobId, sequence, priority, alone, busyTimeoutMs } = this.#request;
    const startSample = this.#detected;
    const startedAt = now();
    const { probabilities } = await this.#traced('vad', (span) =>
      detector.submit(
        {
          jobId,
          jobSequence: sequence,
          priority,
          alone,
          key: 'vad',
          task: { audio, startSample, endSample, state: this.#state, options: {} },
          jobRemainingSeconds: 0,
          span,
        },
        { signal, busyTimeoutMs },
      ),
    );
    this.#vadMs += now() - startedAt;
    return probabilities;
  }
}

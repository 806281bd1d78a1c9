/**
 * Sends the segments of a split job to other workers. Neighbors go together in one part, so that a worker fills a batch with
 * them and decodes one stretch of the input. The results are the same as if this worker had recognized the segments.
 */
import { WavepoolError } from '../../core/errors.ts';
import type { PartData, PartResult } from '../../core/job/part.ts';
import { SAMPLE_RATE, type TaskOptions, type TaskResult } from '../../runtime/engine.ts';
import { fromStored } from '../journal/journal.ts';
import type { ChannelSegment } from '../speech/segment-merger.ts';

/** A part is sent when it has this much speech. */
const PART_SECONDS = 60;
/** A part is sent when its segments would span more of the input than this. */
const MOST_SPAN_SECONDS = 120;
/** A part is sent when no more segments have come for this long, because other segments may wait for its results. */
const PATIENCE_MS = 100;

/** Runs a part elsewhere. */
export type RunPart = (part: PartData, signal: AbortSignal) => Promise<PartResult>;

export interface PartDispatcherOptions {
  readonly run: RunPart;
  readonly part: Omit<PartData, 'segments' | 'submittedAt'>;
  /** The build of the native code here. Results of other builds are not taken. */
  readonly build: string;
}

export interface DispatchOptions {
  readonly signal: AbortSignal;
  /** Recognizes the segment in this worker. */
  readonly here: () => Promise<TaskResult>;
}

interface Waiting {
  readonly segment: ChannelSegment;
  readonly options: TaskOptions;
  readonly here: () => Promise<TaskResult>;
  readonly settle: (result: Promise<TaskResult>) => void;
}

export class PartDispatcher {
  readonly #options: PartDispatcherOptions;
  #waiting: Waiting[] = [];
  #patience: NodeJS.Timeout | undefined;

  constructor(options: PartDispatcherOptions) {
    this.#options = options;
  }

  /** Call in the order of the audio. @throws {WavepoolError} why its part failed; the signal's reason */
  recognize(
    segment: ChannelSegment,
    options: TaskOptions,
    { signal, here }: DispatchOptions,
  ): Promise<TaskResult> {
    if (this.#reaches(segment) > MOST_SPAN_SECONDS) this.#send(signal);
    return new Promise((resolve) => {
      this.#waiting.push({ segment, options, here, settle: resolve });
      clearTimeout(this.#patience);
      if (this.#seconds >= PART_SECONDS) this.#send(signal);
      else this.#patience = setTimeout(() => this.#send(signal), PATIENCE_MS);
    });
  }

  get #seconds(): number {
    return this.#waiting.reduce(
      (sum, { segment: { startSample, endSample } }) =>
        sum + (endSample - startSample) / SAMPLE_RATE,
      0,
    );
  }

  #reaches({ endSample }: ChannelSegment): number {
    const first = this.#waiting[0]?.segment.startSample ?? endSample;
    return (endSample - first) / SAMPLE_RATE;
  }

  #send(signal: AbortSignal): void {
    clearTimeout(this.#patience);
    const sent = this.#waiting;
    this.#waiting = [];
    if (sent.length === 0) return;
    const ended = this.#run(sent, signal);
    for (const [at, { here, settle }] of sent.entries()) {
      settle(ended.then((results) => this.#resultOf(results, at, here)));
    }
  }

  #run(sent: readonly Waiting[], signal: AbortSignal): Promise<PartResult> {
    const { run, part } = this.#options;
    const segments = sent.map(({ segment: { startSample, endSample, channel }, options }) => {
      return { startSample, endSample, channel, options: { ...options } };
    });
    return run({ ...part, segments, submittedAt: Date.now() }, signal);
  }

  async #resultOf(
    { build, results }: PartResult,
    at: number,
    here: () => Promise<TaskResult>,
  ): Promise<TaskResult> {
    if (build !== this.#options.build) return here();
    const result = results[at];
    if (result === undefined) throw new WavepoolError('INTERNAL', 'a part lacks a segment');
    return fromStored(result);
  }
}

/**
 * Turns speech probabilities into segments for recognition, window by window, so that it needs no more of a file than
 * what is being spoken right now. The same probabilities give the same segments however they are cut into calls.
 *
 *   silence ──p ≥ threshold──▶ speech ──p < threshold − 0.15 for long enough──▶ silence: segment closed
 *                                └──── segment reaches maxSegment ───▶ split at the quietest window of its later half
 */
import type { VadOptions } from '../../core/job/job.ts';
import { SAMPLE_RATE } from '../../runtime/engine.ts';

export interface SegmenterOptions {
  /** Samples that one probability stands for. */
  readonly windowSamples: number;
  /** Probability from which a window counts as speech, 0…1. */
  readonly threshold: number;
  /** Shorter stretches of speech are dropped as noise. */
  readonly minSpeechSamples: number;
  /** Shorter pauses stay inside a segment. */
  readonly minSilenceSamples: number;
  /** A recognizer needs context: segments shorter than this go on across pauses shorter than `longSilenceSamples`. */
  readonly targetSamples: number;
  /** A pause this long ends every segment; at least `minSilenceSamples`. */
  readonly longSilenceSamples: number;
  /** Audio kept around a segment, at most half of `minSilenceSamples`. */
  readonly padSamples: number;
  /** No segment is longer, padding included. */
  readonly maxSegmentSamples: number;
}

export interface SpeechSegment {
  readonly startSample: number;
  readonly endSample: number;
  /** Mean probability of its windows, padding left out. */
  readonly confidence: number;
}

/** How far below the threshold speech must fall to end. Otherwise speech around the threshold would be cut into pieces. */
const HYSTERESIS = 0.15;
/** Windows averaged when looking for the quietest place to split. */
const SPLIT_SMOOTHING = 2;

export interface Segmenting {
  readonly vad: VadOptions;
  /** Samples that one probability of the detector stands for. */
  readonly windowSamples: number;
  /** No segment is longer. */
  readonly longestSeconds: number;
}

/** Makes a segmenter from the options of a job or a live stream. */
export function createSegmenter({ vad, windowSamples, longestSeconds }: Segmenting) {
  const samples = (ms: number) => Math.round((ms * SAMPLE_RATE) / 1_000);
  return new SpeechSegmenter({
    windowSamples,
    threshold: vad.threshold,
    minSpeechSamples: samples(vad.minSpeechMs),
    minSilenceSamples: samples(vad.minSilenceMs),
    targetSamples: samples(vad.targetSegmentMs),
    longSilenceSamples: samples(vad.longSilenceMs),
    padSamples: samples(vad.padMs),
    maxSegmentSamples: samples(1_000 * longestSeconds),
  });
}

export class SpeechSegmenter {
  readonly #options: SegmenterOptions;
  readonly #padSamples: number;
  readonly #maxWindows: number;
  /** Index of the next window. */
  #window = 0;
  /** First window of the segment being spoken. */
  #speechStart: number | undefined;
  /** First window of the pause at its end, if there is one. */
  #silenceStart: number | undefined;
  /** Probabilities since `#speechStart`. */
  #probabilities: number[] = [];
  /** Whether the current segment continues one that was split. Then it gets no padding before it, and is never noise. */
  #continued = false;
  #speechSamples = 0;

  constructor(options: SegmenterOptions) {
    this.#options = options;
    this.#padSamples = Math.min(options.padSamples, Math.floor(options.minSilenceSamples / 2));
    const spoken = options.maxSegmentSamples - 2 * this.#padSamples;
    this.#maxWindows = Math.max(2, Math.floor(spoken / options.windowSamples));
  }

  /** Audio before this sample will not be part of any later segment. */
  get keepFrom(): number {
    const start = this.#speechStart ?? this.#window;
    return Math.max(0, start * this.#options.windowSamples - this.#padSamples);
  }

  /** The first sample of the segment that is being spoken, once it is certain that there will be one. */
  get speakingSince(): number | undefined {
    const start = this.#speechStart;
    if (start === undefined) return undefined;
    const { windowSamples, minSpeechSamples } = this.#options;
    if (this.#continued) return start * windowSamples;
    const spoken = ((this.#silenceStart ?? this.#window) - start) * windowSamples;
    return spoken < Math.max(1, minSpeechSamples) ? undefined : this.keepFrom;
  }

  /** Samples in the segments given out so far, padding excluded. */
  get speechSamples(): number {
    return this.#speechSamples;
  }

  /** Takes the next windows; returns the segments that ended with them. */
  push(probabilities: ArrayLike<number>): SpeechSegment[] {
    const closed: SpeechSegment[] = [];
    for (let i = 0; i < probabilities.length; i += 1) {
      const segment = this.#step(probabilities[i] ?? 0);
      if (segment) closed.push(segment);
    }
    return closed;
  }

  /** Closes the segment that is still being spoken when the input ends after `totalSamples`. */
  finish(totalSamples: number): SpeechSegment[] {
    if (this.#speechStart === undefined) return [];
    const end = this.#silenceStart ?? this.#window;
    const segment = this.#close(end, this.#padSamples, totalSamples);
    return segment ? [segment] : [];
  }

  #step(probability: number): SpeechSegment | undefined {
    const { threshold, windowSamples } = this.#options;
    const window = this.#window;
    this.#window += 1;
    if (this.#speechStart === undefined) {
      if (probability >= threshold) this.#open(window, [probability], false);
      return undefined;
    }
    this.#probabilities.push(probability);
    if (probability >= threshold) this.#silenceStart = undefined;
    else if (probability < threshold - HYSTERESIS) this.#silenceStart ??= window;

    const pauseStart = this.#silenceStart;
    if (pauseStart !== undefined) {
      const silence = (this.#window - pauseStart) * windowSamples;
      if (silence >= this.#silenceThatEnds(pauseStart - this.#speechStart)) {
        return this.#close(pauseStart, this.#padSamples, Number.POSITIVE_INFINITY);
      }
    }
    if (this.#probabilities.length >= this.#maxWindows) return this.#split();
    return undefined;
  }

  /** Samples of silence that end a segment of so many windows. */
  #silenceThatEnds(windows: number): number {
    const { windowSamples, targetSamples, minSilenceSamples, longSilenceSamples } = this.#options;
    const isShort = windows * windowSamples < targetSamples;
    return isShort ? Math.max(longSilenceSamples, minSilenceSamples) : minSilenceSamples;
  }

  #open(window: number, probabilities: number[], continued: boolean): void {
    this.#speechStart = window;
    this.#silenceStart = undefined;
    this.#probabilities = probabilities;
    this.#continued = continued;
  }

  /** Ends the segment before window `end` and goes back to silence. */
  #close(end: number, padAfter: number, totalSamples: number): SpeechSegment | undefined {
    const start = this.#speechStart ?? end;
    const { windowSamples, minSpeechSamples } = this.#options;
    const spoken = (end - start) * windowSamples;
    const isNoise = spoken < minSpeechSamples && !this.#continued;
    const padBefore = this.#continued ? 0 : this.#padSamples;
    const confidence = mean(this.#probabilities.slice(0, end - start));
    this.#speechStart = undefined;
    this.#silenceStart = undefined;
    this.#probabilities = [];
    this.#continued = false;
    if (isNoise || spoken <= 0) return undefined;
    this.#speechSamples += spoken;
    return {
      startSample: Math.max(0, start * windowSamples - padBefore),
      endSample: Math.min(totalSamples, end * windowSamples + padAfter),
      confidence,
    };
  }

  /** Cuts a segment that is as long as it may be where its later half is quietest, and goes on from there. */
  #split(): SpeechSegment | undefined {
    const probabilities = this.#probabilities;
    const start = this.#speechStart ?? 0;
    const cut = quietestWindow(probabilities, Math.floor(probabilities.length / 2));
    const rest = probabilities.slice(cut);
    const silenceStart = this.#silenceStart;
    const segment = this.#close(start + cut, 0, Number.POSITIVE_INFINITY);
    this.#open(start + cut, rest, true);
    if (silenceStart !== undefined) this.#silenceStart = Math.max(silenceStart, start + cut);
    return segment;
  }
}

/**
 * The index of the quietest window from `from` to the last but one. A window's own value counts as much as the mean of its
 * neighborhood. Of equal windows, the latest is taken.
 */
function quietestWindow(probabilities: readonly number[], from: number): number {
  let best = Math.max(1, from);
  let lowest = Number.POSITIVE_INFINITY;
  for (let i = best; i < probabilities.length - 1; i += 1) {
    const first = Math.max(0, i - SPLIT_SMOOTHING);
    const around = probabilities.slice(first, i + SPLIT_SMOOTHING + 1);
    const loudness = mean(around) + (probabilities[i] ?? 0);
    if (loudness <= lowest) {
      lowest = loudness;
      best = i;
    }
  }
  return best;
}

/** The mean of no values is 0. */
function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

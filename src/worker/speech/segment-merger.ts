/** Puts the segments of several channels into one order by time, as soon as no channel can bring an earlier one. */
import type { SpeechSegment } from './speech-segmenter.ts';

export interface ChannelSegment extends SpeechSegment {
  /** Counted from 0. */
  readonly channel: number;
}

export class SegmentMerger {
  #held: ChannelSegment[] = [];

  add(segment: ChannelSegment): void {
    this.#held.push(segment);
  }

  /** Start of the earliest segment that has no place yet; Infinity where each has. */
  get firstHeldSample(): number {
    return Math.min(...this.#held.map(({ startSample }) => startSample));
  }

  /**
   * The segments whose places are known now, in order; of equal times that of the first channel comes first.
   * @param horizon before this sample no more segments begin, in any channel
   */
  take(horizon: number): ChannelSegment[] {
    const sorted = this.#held.toSorted(
      (a, b) => a.startSample - b.startSample || a.channel - b.channel,
    );
    this.#held = sorted.filter(({ startSample }) => startSample >= horizon);
    return sorted.filter(({ startSample }) => startSample < horizon);
  }
}

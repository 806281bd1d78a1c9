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

  /** Start of the earliest segment that was not taken yet; Infinity when there is none. */
  get firstHeldSample(): number {
    return Math.min(...this.#held.map(({ startSample }) => startSample));
  }

  /**
   * Takes the segments whose places are known now, in order. Of segments with equal times, the first channel's comes first.
   * @param horizon no channel will bring a segment that begins before this sample
   */
  take(horizon: number): ChannelSegment[] {
    const sorted = this.#held.toSorted(
      (a, b) => a.startSample - b.startSample || a.channel - b.channel,
    );
    this.#held = sorted.filter(({ startSample }) => startSample >= horizon);
    return sorted.filter(({ startSample }) => startSample < horizon);
  }
}

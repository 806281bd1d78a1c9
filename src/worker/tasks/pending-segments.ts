/** The segments of one job that wait for recognition or are being recognized, and the results that have come. */
import type { TaskResult } from '../../runtime/engine.ts';
import type { ChannelSegment } from '../speech/segment-merger.ts';

export interface RecognizedSegment extends ChannelSegment {
  readonly result: TaskResult;
}

interface Entry {
  readonly segment: ChannelSegment;
  readonly settled: Promise<unknown>;
  result: TaskResult | undefined;
}

export class PendingSegments {
  readonly #entries: Entry[] = [];
  /** Entries before this index have ended. */
  #ended = 0;

  get total(): number {
    return this.#entries.length;
  }

  get done(): number {
    return this.#entries.reduce((count, { result }) => count + (result ? 1 : 0), 0);
  }

  /** Adds a segment whose recognition has been asked for; resolves when that has ended, well or badly. */
  add(segment: ChannelSegment, recognition: Promise<TaskResult>): Promise<unknown> {
    const entry: Entry = {
      segment,
      result: undefined,
      settled: recognition.then(
        (result) => {
          entry.result = result;
        },
        // The pipeline handles the failure. Here it only means that the audio is no longer needed.
        () => undefined,
      ),
    };
    this.#entries.push(entry);
    return entry.settled;
  }

  /** First sample that an unfinished segment still needs; undefined when none does. */
  get firstNeededSample(): number | undefined {
    for (let i = this.#ended; i < this.#entries.length; i += 1) {
      if (this.#entries[i]?.result === undefined) return this.#entries[i]?.segment.startSample;
      if (i === this.#ended) this.#ended += 1;
    }
    return undefined;
  }

  /** Resolves when the oldest unfinished segment has ended; at once when there is none. */
  async oldestSettled(): Promise<void> {
    const oldest = this.#entries.slice(this.#ended).find(({ result }) => result === undefined);
    await oldest?.settled;
  }

  /** Resolves when every segment has ended, well or badly. */
  async allSettled(): Promise<void> {
    await Promise.all(this.#entries.map(({ settled }) => settled));
  }

  /** All segments with their results, in the order of the audio. Call it when all have succeeded. */
  recognized(): RecognizedSegment[] {
    return this.#entries.flatMap(({ segment, result }) => (result ? [{ ...segment, result }] : []));
  }
}

/** Puts the segments of a job into the order of its audio; they come in the order in which they were recognized. */
import type { PartialSegment } from '../../core/job/job.ts';

export class SegmentOrder {
  readonly #early = new Map<number, string>();
  #next = 0;
  #text = '';

  /** What this segment makes it possible to tell now: text that goes on where the last one ended. Often nothing. */
  add({ index, text }: PartialSegment): string {
    // After a crash or a retry a place may come again; what was told stays.
    if (index >= this.#next) this.#early.set(index, text);
    const before = this.#text.length;
    for (let ready = this.#take(); ready !== undefined; ready = this.#take()) {
      if (ready !== '') this.#text += this.#text === '' ? ready : ` ${ready}`;
    }
    return this.#text.slice(before);
  }

  /** What is missing of the whole text. Nothing when something else was told before: only the whole counts then. */
  rest(whole: string): string {
    return whole.startsWith(this.#text) ? whole.slice(this.#text.length) : '';
  }

  #take(): string | undefined {
    const text = this.#early.get(this.#next);
    if (text === undefined) return undefined;
    this.#early.delete(this.#next);
    this.#next += 1;
    return text;
  }
}

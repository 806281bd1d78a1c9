/** Refuses jobs when too many wait in their queue. */
import { WavepoolError } from '../core/errors.ts';
import type { AudioQueue } from '../queue/audio-queue.ts';

/** Counting costs a call to Redis. Between two counts the jobs that this server adds are added up here. */
const RECOUNT_MS = 250;

interface Count {
  waiting: number;
  readonly at: number;
}

export class QueueLimit {
  readonly #limit: number;
  readonly #now: () => number;
  readonly #counts = new WeakMap<AudioQueue, Count>();

  constructor(limit: number, now: () => number) {
    this.#limit = limit;
    this.#now = now;
  }

  /**
   * Reserves places for jobs that are about to be added. Other servers do the same, so the limit may be exceeded by a little.
   * @throws {WavepoolError} QUEUE_FULL, REDIS_UNAVAILABLE
   */
  async reserve(queue: AudioQueue, jobs: number): Promise<void> {
    let count = this.#counts.get(queue);
    const isFresh = count !== undefined && Math.abs(this.#now() - count.at) < RECOUNT_MS;
    if (count === undefined || !isFresh || count.waiting + jobs > this.#limit) {
      const { waiting, delayed } = await queue.counts();
      count = { waiting: waiting + delayed, at: this.#now() };
      this.#counts.set(queue, count);
    }
    if (count.waiting + jobs > this.#limit) {
      throw new WavepoolError('QUEUE_FULL', `${count.waiting} jobs of ${queue.model} wait`);
    }
    count.waiting += jobs;
  }
}

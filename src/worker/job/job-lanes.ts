/**
 * The places in which a worker runs the jobs of one queue. Long recordings would hold all of them for hours, and who
 * comes with a short one would wait for that: so jobs that have run for a while do not count, up to a bound, and another
 * lane of places is opened beside theirs.
 *
 * A lane is a BullMQ worker of its own, for BullMQ looks at a changed concurrency only when one of its jobs has ended.
 */
import { startLongTimer } from './long-timer.ts';

export interface Lane {
  set concurrency(jobs: number);
  /** Resolves when it is connected. */
  ready(): Promise<unknown>;
  /** Takes jobs until it is closed. */
  run(): Promise<void>;
  /** Takes no more jobs; resolves when the running ones have ended. */
  close(): Promise<void>;
}

/** What every job holds in any case, in decoded audio, is bounded by this many lanes. */
const MOST_LANES = 3;

export interface JobLanesOptions {
  /** Makes a lane that does not run yet. */
  readonly open: (places: number) => Lane;
  /** Of each lane. */
  readonly places: number;
  /** A job that has run for so long is a long one. */
  readonly longAfterMs: number;
  readonly onError: (error: unknown) => void;
}

export class JobLanes {
  readonly #options: JobLanesOptions;
  readonly #first: Lane;
  /** Opened for the sake of long jobs; the last goes first. */
  readonly #more: Lane[] = [];
  /** Finish what they have. */
  readonly #closing = new Set<Promise<void>>();
  #places: number;
  #longJobs = 0;
  #closed = false;

  constructor(options: JobLanesOptions) {
    this.#options = options;
    this.#places = options.places;
    this.#first = options.open(options.places);
  }

  async ready(): Promise<void> {
    await this.#first.ready();
  }

  start(): void {
    this.#run(this.#first);
  }

  /** Jobs that run at once in each lane; fewer than are running lets those end. */
  set places(places: number) {
    this.#places = places;
    for (const lane of [this.#first, ...this.#more]) lane.concurrency = places;
    this.#balance();
  }

  /** A job begins; call what is returned when it has ended. */
  enter(): () => void {
    let long = false;
    const growsLong = startLongTimer(this.#options.longAfterMs, () => {
      long = true;
      this.#longJobs += 1;
      this.#balance();
    });
    return () => {
      growsLong.cancel();
      if (!long) return;
      this.#longJobs -= 1;
      this.#balance();
    };
  }

  /** Takes no more jobs and waits for the running ones, however they end. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const lane of [this.#first, ...this.#more.splice(0)]) this.#end(lane);
    await Promise.all(this.#closing);
  }

  #balance(): void {
    if (this.#closed) return;
    const needed = Math.min(MOST_LANES, 1 + Math.floor(this.#longJobs / this.#places));
    while (1 + this.#more.length < needed) {
      const lane = this.#options.open(this.#places);
      this.#more.push(lane);
      this.#run(lane);
    }
    while (1 + this.#more.length > needed) {
      const lane = this.#more.pop();
      if (lane !== undefined) this.#end(lane);
    }
  }

  #run(lane: Lane): void {
    lane.run().catch(this.#options.onError);
  }

  #end(lane: Lane): void {
    const ended = lane
      .close()
      .catch(this.#options.onError)
      .finally(() => this.#closing.delete(ended));
    this.#closing.add(ended);
  }
}

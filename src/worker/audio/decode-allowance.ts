/**
 * How much decoded audio each running job may hold ahead of recognition. The jobs of a worker share a fixed amount, so
 * memory follows settings, not the length of files; a job that runs alone gets enough of it to fill native batches.
 */
export interface DecodeAllowanceOptions {
  /** Shared by all jobs of the worker, in seconds of audio. */
  readonly totalSeconds: number;
  /** Seconds that every job may hold in any case: enough to decode one more piece and to complete the longest segment. */
  readonly minimumSeconds: number;
}

export class DecodeAllowance {
  readonly #options: DecodeAllowanceOptions;
  #jobs = 0;

  constructor(options: DecodeAllowanceOptions) {
    this.#options = options;
  }

  /** Counts a job in until the returned function is called. */
  enter(): () => void {
    this.#jobs += 1;
    let inside = true;
    return () => {
      if (inside) this.#jobs -= 1;
      inside = false;
    };
  }

  /** Seconds that one job may hold right now. */
  get perJobSeconds(): number {
    const { totalSeconds, minimumSeconds } = this.#options;
    return Math.max(minimumSeconds, totalSeconds / Math.max(1, this.#jobs));
  }
}

/**
 * Lets a bounded number of tasks run at once. A closed gate keeps nobody waiting for room. A bound that is a function is asked
 * for with the first task; if it rejects, so does `room`.
 */
export class ConcurrencyGate {
  #most: number | undefined;
  readonly #bound: () => Promise<number>;
  #running = 0;
  #closed = false;
  #wake: (() => void)[] = [];

  constructor(most: number | (() => Promise<number>)) {
    this.#bound = typeof most === 'number' ? () => Promise.resolve(most) : most;
  }

  /** Resolves when there is room for one more task, with true; with false once the gate is closed. */
  async room(): Promise<boolean> {
    this.#most ??= await this.#bound();
    while (this.#running >= this.#most && !this.#closed) await this.#change();
    return !this.#closed;
  }

  /** Starts a task that handles its own errors. */
  start(task: () => Promise<void>): void {
    this.#running += 1;
    void task().finally(() => {
      this.#running -= 1;
      this.#announce();
    });
  }

  /** Resolves when no task runs, or the gate is closed. */
  async quiet(): Promise<void> {
    while (this.#running > 0 && !this.#closed) await this.#change();
  }

  /** Resolves when no task runs. */
  async idle(): Promise<void> {
    while (this.#running > 0) await this.#change();
  }

  /** Running tasks go on. */
  close(): void {
    this.#closed = true;
    this.#announce();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake.push(resolve);
    });
  }

  #announce(): void {
    const waiting = this.#wake;
    this.#wake = [];
    for (const resolve of waiting) resolve();
  }
}

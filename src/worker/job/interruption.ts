/**
 * What ends a job early. An `AbortController` whose signal is made for the first who asks for it: to make one costs more than
 * all else that a worker remembers of a job.
 */
export class Interruption {
  #controller: AbortController | undefined;
  #reason: Error | undefined;

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The first reason counts. */
  abort(reason: Error): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }

  /** As the signal's. */
  throwIfAborted(): void {
    if (this.#reason !== undefined) throw this.#reason;
  }
}

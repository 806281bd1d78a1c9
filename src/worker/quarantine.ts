/**
 * Where jobs of one worker process start. A job that was there when a worker died may be what killed it: it runs with nobody
 * beside it, so that a second death is its own.
 *
 * First come, first served: a suspect waits for what runs, and what comes later waits for the suspect.
 */
interface Waiting {
  readonly suspect: boolean;
  readonly admit: () => void;
}

export class Quarantine {
  #running = 0;
  #isolated = false;
  #waiting: Waiting[] = [];

  /**
   * Resolves when the job may start, with what is to be called when it has ended.
   * @throws the signal's reason when it aborts before
   */
  async enter(suspect: boolean, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    let settle: () => void = () => undefined;
    const mine: Waiting = { suspect, admit: () => settle() };
    await new Promise<void>((resolve) => {
      settle = () => {
        signal.removeEventListener('abort', settle);
        resolve();
      };
      signal.addEventListener('abort', settle);
      this.#waiting.push(mine);
      this.#admit();
    });
    const queued = this.#waiting.indexOf(mine);
    if (queued >= 0) {
      this.#waiting.splice(queued, 1);
      this.#admit();
      throw signal.reason;
    }
    return () => this.#leave();
  }

  #admit(): void {
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined || this.#isolated || (next.suspect && this.#running > 0)) return;
      this.#waiting.shift();
      this.#running += 1;
      this.#isolated = next.suspect;
      next.admit();
    }
  }

  #leave(): void {
    this.#running -= 1;
    this.#isolated = false;
    this.#admit();
  }
}

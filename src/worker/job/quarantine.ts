/**
 * Where jobs of one worker process start. A job that was there when a worker died may be what killed it: it runs with nobody
 * beside it, so that a second death is its own.
 *
 * First come, first served: a suspect waits for what runs, and what comes later waits for the suspect. Where what runs takes
 * long, later ones are let by until that has ended, a few times; then the suspect gets its turn.
 */
import { type Clock, systemClock, type Timer } from '../../runtime/clock.ts';

/** A suspect keeps others waiting for so long before it lets them by. */
export const PATIENCE_MS = 10_000;
/** So often. */
export const MOST_YIELDS = 3;

interface Visit {
  readonly suspect: boolean;
  readonly admit: () => void;
  /** How often it has let others by. */
  yields: number;
}

export class Quarantine {
  readonly #clock: Clock;
  readonly #running = new Set<Visit>();
  /** Ran when a suspect's patience ended: others are let by until they have ended. */
  readonly #slow = new Set<Visit>();
  #isolated = false;
  #waiting: Visit[] = [];
  /** Of the suspect that is next. */
  #patience: Timer | undefined;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /**
   * Resolves when the job may start, with what is to be called when it has ended.
   * @throws the signal's reason when it aborts before
   */
  async enter(suspect: boolean, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    let settle: () => void = () => undefined;
    const mine: Visit = { suspect, admit: () => settle(), yields: 0 };
    await new Promise<void>((resolve) => {
      settle = () => {
        signal.removeEventListener('abort', settle);
        resolve();
      };
      signal.addEventListener('abort', settle);
      this.#waiting.push(mine);
      this.#admit();
    });
    if (this.#waiting.includes(mine)) {
      this.#remove(mine);
      this.#admit();
      throw signal.reason;
    }
    return () => this.#leave(mine);
  }

  #admit(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#remove(next);
      this.#running.add(next);
      this.#isolated = next.suspect;
      next.admit();
    }
  }

  /** Who may start now. */
  #next(): Visit | undefined {
    const [first] = this.#waiting;
    if (first === undefined || this.#isolated) return undefined;
    if (!first.suspect || this.#running.size === 0) return first;
    if (this.#slow.size > 0) return this.#waiting.find(({ suspect }) => !suspect);
    if (first.yields < MOST_YIELDS)
      this.#patience ??= this.#clock.setTimer(PATIENCE_MS, () => this.#yield(first));
    return undefined;
  }

  #yield(suspect: Visit): void {
    this.#patience = undefined;
    suspect.yields += 1;
    for (const visit of this.#running) this.#slow.add(visit);
    this.#admit();
  }

  #remove(visit: Visit): void {
    if (visit === this.#waiting[0]) {
      this.#patience?.cancel();
      this.#patience = undefined;
      this.#slow.clear();
    }
    this.#waiting.splice(this.#waiting.indexOf(visit), 1);
  }

  #leave(visit: Visit): void {
    this.#running.delete(visit);
    this.#slow.delete(visit);
    this.#isolated = false;
    this.#admit();
  }
}

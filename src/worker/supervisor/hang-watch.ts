/**
 * Finds out whether a worker process hangs: its event loop sends no messages, or one native batch never ends.
 *
 * It counts the ticks of its owner instead of time. A machine that slept, or a terminal job that was stopped together with its
 * workers, has not ticked meanwhile, so nobody is blamed for it.
 */
export type Hang = 'silent' | 'native';

/** A process that has sent no message yet is still loading, which may take a while on a busy machine. */
const START_TICKS = 120;

export class HangWatch {
  #limitTicks: number;
  readonly #limitOnceHeard: number;
  #heard = false;
  #oldestRun: number | null = null;
  #silentTicks = 0;
  #runTicks = 0;

  /** @param limitTicks a process hangs after so many ticks without progress; 0 = never */
  constructor(limitTicks: number) {
    this.#limitOnceHeard = limitTicks;
    this.#limitTicks = limitTicks === 0 ? 0 : Math.max(limitTicks, START_TICKS);
  }

  /** The process has sent a message. @param oldestRun names the native batch that has been running longest */
  alive(oldestRun: number | null): void {
    this.#heard = true;
    this.#limitTicks = this.#limitOnceHeard;
    if (oldestRun !== this.#oldestRun) this.#runTicks = 0;
    this.#oldestRun = oldestRun;
  }

  /** Counts a tick. @returns what hangs, if anything does */
  tick(): Hang | undefined {
    this.#silentTicks = this.#heard ? 0 : this.#silentTicks + 1;
    this.#heard = false;
    if (this.#oldestRun !== null) this.#runTicks += 1;
    if (this.#limitTicks === 0) return undefined;
    if (this.#silentTicks >= this.#limitTicks) return 'silent';
    return this.#runTicks >= this.#limitTicks ? 'native' : undefined;
  }
}

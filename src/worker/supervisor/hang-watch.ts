/**
 * Tells a worker process that hangs from one that works: its event loop says nothing, or one native batch never ends.
 *
 * It counts the ticks of its owner instead of time. A machine that slept, or a terminal job that was stopped together with its
 * workers, has not ticked meanwhile, so nobody is blamed for it.
 */
export type Hang = 'silent' | 'native';

/** A process that has not said anything yet is still being loaded, on a busy machine for a while. */
const START_TICKS = 120;

export class HangWatch {
  #limitTicks: number;
  readonly #limitOnceHeard: number;
  #heard = false;
  #oldestRun: number | null = null;
  #silentTicks = 0;
  #runTicks = 0;

  /** @param limitTicks ticks without progress that are a hang; 0 = none ever is */
  constructor(limitTicks: number) {
    this.#limitOnceHeard = limitTicks;
    this.#limitTicks = limitTicks === 0 ? 0 : Math.max(limitTicks, START_TICKS);
  }

  /** @param oldestRun names the native batch that has been running longest */
  hear(oldestRun: number | null): void {
    this.#heard = true;
    this.#limitTicks = this.#limitOnceHeard;
    if (oldestRun !== this.#oldestRun) this.#runTicks = 0;
    this.#oldestRun = oldestRun;
  }

  /** What hangs by now. */
  tick(): Hang | undefined {
    this.#silentTicks = this.#heard ? 0 : this.#silentTicks + 1;
    this.#heard = false;
    if (this.#oldestRun !== null) this.#runTicks += 1;
    if (this.#limitTicks === 0) return undefined;
    if (this.#silentTicks >= this.#limitTicks) return 'silent';
    return this.#runTicks >= this.#limitTicks ? 'native' : undefined;
  }
}

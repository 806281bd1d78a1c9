/** Bounds what is under way at one host, so that a slow one does not take the places of all others. */
export class HostGate {
  readonly #limit: number;
  readonly #busy = new Map<string, number>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Call what is returned when it is over; nothing when the host has enough to do. */
  enter(host: string): (() => void) | undefined {
    const busy = this.#busy.get(host) ?? 0;
    if (busy >= this.#limit) return undefined;
    this.#busy.set(host, busy + 1);
    return () => {
      const left = (this.#busy.get(host) ?? 1) - 1;
      if (left === 0) this.#busy.delete(host);
      else this.#busy.set(host, left);
    };
  }
}

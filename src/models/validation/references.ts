/** The results of one slot. The results of every other count are compared with them: cold with cold, warm with warm. */
import type { ItemOutcome, StartReport } from '../../core/evidence/validation-ipc.ts';

export interface Mismatch {
  readonly outcome: ItemOutcome;
  /** The outcome of the same history on one slot. */
  readonly expected: ItemOutcome;
}

/** Outcomes with the same key come from equivalent histories. */
function keyOf({ item, coldGroup }: ItemOutcome): string {
  return coldGroup === undefined ? `warm ${item}` : `cold ${coldGroup} ${item}`;
}

export class References {
  readonly #expected = new Map<string, ItemOutcome>();
  /** One slot contradicts itself. */
  readonly variations: readonly Mismatch[];
  readonly compared: number;

  /** @param serial the starts with one slot; the first outcome of each history is what the later ones must equal */
  constructor(serial: readonly StartReport[]) {
    const variations: Mismatch[] = [];
    const outcomes = serial.flatMap((report) => report.outcomes);
    for (const outcome of outcomes) {
      const key = keyOf(outcome);
      const expected = this.#expected.get(key);
      if (expected === undefined) this.#expected.set(key, outcome);
      else if (expected.result !== outcome.result) variations.push({ outcome, expected });
    }
    this.variations = variations;
    this.compared = outcomes.length - this.#expected.size;
  }

  /** Histories of which one slot gave an error instead of a result. */
  get failures(): readonly ItemOutcome[] {
    return [...this.#expected.values()].filter(({ result }) => !isDigest(result));
  }

  /** @throws {RangeError} for a history that one slot never had: the plans do not fit together */
  mismatches(report: StartReport): readonly Mismatch[] {
    return report.outcomes.flatMap((outcome) => {
      const expected = this.#expected.get(keyOf(outcome));
      if (expected === undefined) throw new RangeError(`no reference for ${keyOf(outcome)}`);
      return expected.result === outcome.result ? [] : [{ outcome, expected }];
    });
  }
}

function isDigest(result: string): boolean {
  return /^[0-9a-f]{64}$/.test(result);
}

const SHOWN = 80;

export function describeMismatch({ outcome, expected }: Mismatch): string {
  const { phase, wave, item, slot } = outcome;
  const where = `${phase} wave ${wave}, item ${item}${slot === undefined ? '' : `, slot ${slot}`}`;
  const same = outcome.text === expected.text ? ' (the words are equal, other values differ)' : '';
  return `${where}: ${shown(outcome)} instead of ${shown(expected)}${same}`;
}

function shown({ result, text }: ItemOutcome): string {
  const words = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
  return isDigest(result) ? JSON.stringify(words) : `${result} (${words})`;
}

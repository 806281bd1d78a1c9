/**
 * Rounds in which every contestant runs once, in turn, so that a machine that slows down slows everybody. They are repeated
 * until the medians of the ratios within a round have settled, or there is no more time.
 */
import { measured } from './measure.mjs';

/** Fewer tell nothing about how far they spread. */
const FEWEST_TO_SETTLE = 3;
/** A round that moves the median by less than this changes nothing. */
const SETTLED_WITHIN = 0.01;

export function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** How many times as fast as the peer we were, round by round. */
export function ratios(ours, theirs) {
  return theirs.rounds.map(({ seconds }, round) => seconds / ours.rounds[round].seconds);
}

function isSettled(contestants) {
  const [first, ...others] = contestants;
  if (first.rounds.length < FEWEST_TO_SETTLE) return false;
  return others.every((other) => {
    const all = ratios(first, other);
    const now = median(all);
    return Math.abs(now - median(all.slice(0, -1))) <= SETTLED_WITHIN * now;
  });
}

/**
 * @param contestants `{name, run, pids?, …}`, see `measured`; the first one is what the others are compared with
 * @param limits `atLeast` and `atMost` rounds; after `endAt` (of `performance.now()`) no round is begun that would end later
 * @returns the contestants as data: `rounds` with what each cost, and their last `texts`
 */
export async function interleave(contestants, { atLeast = 2, atMost = 7, endAt = Infinity }) {
  const results = contestants.map(({ run: _run, pids: _pids, ...facts }) => {
    return { ...facts, rounds: [], found: undefined };
  });
  for (let round = 1; round <= atMost; round += 1) {
    const startedAt = performance.now();
    for (const [index, contestant] of contestants.entries()) {
      const { seconds, cpuSeconds, peakBytes, largestProcessBytes, firstSeconds, ...found } =
        await measured(contestant);
      const figures = { seconds, cpuSeconds, peakBytes, largestProcessBytes, firstSeconds };
      results[index].rounds.push(figures);
      results[index].found = found;
      console.log(`  round ${round}: ${contestant.name}: ${seconds.toFixed(2)} s`);
    }
    const now = performance.now();
    const tooLate = now + (now - startedAt) > endAt;
    if (round >= atLeast && (isSettled(results) || tooLate)) break;
  }
  return results;
}

/** Rounds in which every contestant runs once, in turn, and what is made of their times. */

export function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Runs every contestant once per round, in turn; returns their seconds by round and their last results. */
export async function interleave(contestants, rounds) {
  const seconds = new Map(contestants.map(({ name }) => [name, []]));
  const last = new Map();
  for (let round = 1; round <= rounds; round += 1) {
    for (const { name, run } of contestants) {
      const result = await run();
      seconds.get(name).push(result.seconds);
      last.set(name, result);
      console.log(`  round ${round}: ${name}: ${result.seconds.toFixed(1)} s`);
    }
  }
  return { seconds, last };
}

/** How many times as fast as the peer we were, round by round. */
export function ratios(result, ours, theirs) {
  const mine = result.seconds.get(ours);
  return result.seconds.get(theirs).map((seconds, round) => seconds / mine[round]);
}

export function describeRatio(all) {
  const range = [Math.min(...all), Math.max(...all)].map((ratio) => ratio.toFixed(2));
  return `**${median(all).toFixed(2)} ×** (${range.join('–')})`;
}

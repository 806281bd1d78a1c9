/** Plans the parts that were asked for, says how long they will take, measures them and writes their results. */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { PARTS } from './parts.mjs';
import { writeResult } from './results.mjs';

const CACHE = path.join(import.meta.dirname, '.cache');

/** Each part's share of the time, and the sizes that fit into it. */
function plan(names, { minutes, sizes }) {
  const wanted = PARTS.filter(({ name }) => names.length === 0 || names.includes(name));
  const parts = wanted.filter(({ name, missing }) => {
    const command = missing?.();
    if (command !== undefined) console.log(`${name} is left out; it needs \`${command}\``);
    return command === undefined;
  });
  const shares = parts.reduce((sum, { share }) => sum + share, 0);
  return parts.map((part) => {
    const seconds = (60 * minutes * part.share) / shares;
    const settings = part.settings(seconds, sizes);
    const estimate = part.estimate(settings, seconds);
    // Sizes that were asked for take the time that they take.
    return { part, settings, estimate, seconds: Math.max(seconds, estimate) };
  });
}

function tellPlan(planned) {
  console.log('Plan (estimates for two cores at leisure; audio and peers are prepared besides):');
  for (const { part, settings, estimate } of planned) {
    const minutes = (estimate / 60).toFixed(1).padStart(5);
    console.log(`  ${minutes} min  ${part.name.padEnd(17)} ${JSON.stringify(settings)}`);
  }
  const total = planned.reduce((sum, { estimate }) => sum + estimate, 0);
  console.log(`  ${(total / 60).toFixed(1).padStart(5)} min  together\n`);
}

/**
 * @param options `minutes` for all of them, `sizes` that were asked for (`files`, `audioSeconds`, `oursArgs`), `rounds`,
 *   `peers`, `results` (a folder), `command` as it was typed, `planOnly`
 * @returns the names of the parts that were measured, and those that failed
 */
export async function measureParts(names, options) {
  const { results, command, rounds, peers, planOnly } = options;
  const planned = plan(names, options);
  tellPlan(planned);
  const failed = [];
  if (planOnly) return { measured: [], failed };
  mkdirSync(CACHE, { recursive: true });
  const measured = [];
  for (const { part, settings, seconds } of planned) {
    console.log(`${part.name}: ${part.title}`);
    const limits = {
      atLeast: rounds ?? 2,
      atMost: rounds ?? 7,
      rounds,
      endAt: performance.now() + 1_000 * seconds,
    };
    try {
      const data = await part.measure(settings, { cache: CACHE, limits, peers });
      writeResult(results, part.name, { command, settings, data });
      measured.push(part.name);
    } catch (error) {
      // The others are still worth having.
      console.error(`${part.name} failed: ${error.stack}`);
      failed.push(part.name);
    }
  }
  return { measured, failed };
}

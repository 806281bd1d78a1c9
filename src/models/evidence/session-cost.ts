/** What sessions cost in memory, as it was measured while they worked. */
import type { ModelEvidence, StartPhase } from '../../core/evidence/evidence.ts';

/** While one pool of the count was in memory and nothing else; the recovery of a start has two models for a while. */
const ONE_POOL: ReadonlySet<StartPhase> = new Set(['cold', 'warm', 'serial', 'invalid']);

/** The highest resident size of a worker with so many slots; undefined where none was measured. */
export function peakBytes(record: ModelEvidence, slots: number): number | undefined {
  const count = record.counts.find((evidence) => evidence.slots === slots);
  const samples = count?.starts
    .flatMap(({ memory }) => memory)
    .filter(({ phase }) => ONE_POOL.has(phase));
  if (samples === undefined || samples.length === 0) return undefined;
  return samples.reduce((peak, { residentBytes }) => Math.max(peak, residentBytes), 0);
}

/** What each further slot added, from the largest count that was measured; undefined where only one slot was. */
export function measuredSessionBytes(record: ModelEvidence): number | undefined {
  const one = peakBytes(record, 1);
  const largest = record.counts.findLast(({ slots }) => peakBytes(record, slots) !== undefined);
  if (one === undefined || largest === undefined || largest.slots === 1) return undefined;
  const most = peakBytes(record, largest.slots) ?? one;
  return Math.max(0, Math.ceil((most - one) / (largest.slots - 1)));
}

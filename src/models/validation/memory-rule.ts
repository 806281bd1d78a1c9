/**
 * Judges whether memory comes to rest over repeated use (entry M5).
 *
 * After every warm wave, with nothing at work and JavaScript's garbage collected, the resident size is noted. The first
 * third of these samples is left out: caches fill and allocators find their size. Of the rest, the median of the first half
 * is compared with that of the second half. A start grows when the difference is more than the allowance: 2 % of the
 * resident size, at least 4 MiB.
 *
 * A leak grows in every start, so growth fails the entry when it is found in all starts of a count. A single start that
 * grows is one of those rare steps of an allocator (a thread that needs an arena of its own for the first time): medians
 * do not see it unless it falls between the halves, and it does not do so three times out of three.
 */
import type { MemorySample } from '../../core/evidence/evidence.ts';

const MIB = 2 ** 20;
const LEAST_ALLOWANCE_BYTES = 4 * MIB;
const ALLOWANCE_SHARE = 0.02;
/** With fewer samples nothing can be said. */
const FEWEST_SAMPLES = 6;

export interface MemoryTrend {
  readonly earlierBytes: number;
  readonly laterBytes: number;
  readonly allowanceBytes: number;
  readonly peakBytes: number;
}

export function memoryTrend(samples: readonly MemorySample[]): MemoryTrend | undefined {
  const settled = samples.filter(({ wave }) => wave !== undefined);
  if (settled.length < FEWEST_SAMPLES) return undefined;
  const rest = settled.slice(Math.floor(settled.length / 3)).map((one) => one.residentBytes);
  const half = Math.floor(rest.length / 2);
  const earlierBytes = median(rest.slice(0, half));
  return {
    earlierBytes,
    laterBytes: median(rest.slice(-half)),
    allowanceBytes: Math.max(LEAST_ALLOWANCE_BYTES, ALLOWANCE_SHARE * earlierBytes),
    peakBytes: Math.max(...samples.map((one) => one.residentBytes)),
  };
}

export function grows({ earlierBytes, laterBytes, allowanceBytes }: MemoryTrend): boolean {
  return laterBytes - earlierBytes > allowanceBytes;
}

export function describeTrend(trend: MemoryTrend): string {
  const { earlierBytes, laterBytes, allowanceBytes, peakBytes } = trend;
  const change = (laterBytes - earlierBytes) / MIB;
  return (
    `${mib(earlierBytes)} then ${mib(laterBytes)} MiB resident after warm waves ` +
    `(${change < 0 ? '' : '+'}${change.toFixed(1)}, allowed ${mib(allowanceBytes)}), peak ${mib(peakBytes)} MiB`
  );
}

function mib(bytes: number): string {
  return (bytes / MIB).toFixed(1);
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

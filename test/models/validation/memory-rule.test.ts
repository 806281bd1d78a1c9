/** When memory counts as come to rest. */
import { expect, test } from 'vitest';
import type { MemorySample } from '../../../src/core/evidence/evidence.ts';
import { describeTrend, grows, memoryTrend } from '../../../src/models/validation/memory-rule.ts';

const MIB = 2 ** 20;

function samples(sizes: readonly number[]): MemorySample[] {
  return sizes.map((mib, wave) => {
    return { atMs: wave, phase: 'warm', residentBytes: mib * MIB, wave };
  });
}

const TRENDS: readonly [string, readonly number[], boolean][] = [
  ['a flat line', Array(12).fill(150), false],
  ['growth at the beginning only', [80, 100, 120, 140, ...Array(8).fill(150)], false],
  ['jitter', [150, 150, 150, 150, 152, 149, 151, 150, 153, 148, 151, 150], false],
  ['one spike', [...Array(9).fill(150), 190, 150, 150], false],
  ['4 MiB in all', [...Array(8).fill(100), ...Array(4).fill(104)], false],
  ['2 % of a large model', [...Array(8).fill(1_000), ...Array(4).fill(1_019)], false],
  ['a step between the halves', [...Array(8).fill(100), ...Array(4).fill(105)], true],
  ['2 MiB in every wave', Array.from({ length: 12 }, (_, wave) => 100 + 2 * wave), true],
];

test.each(TRENDS)('%s', (_, sizes, expected) => {
  const trend = memoryTrend(samples(sizes));
  expect(trend && grows(trend)).toBe(expected);
});

test('too few samples tell nothing, and others than those after warm waves do not count', () => {
  expect(memoryTrend(samples([1, 2, 3, 4, 5]))).toBeUndefined();
  const unrelated = { atMs: 0, phase: 'recovery' as const, residentBytes: 900 * MIB };
  const trend = memoryTrend([...samples(Array(12).fill(100)), unrelated]);
  expect(trend && describeTrend(trend)).toBe(
    '100.0 then 100.0 MiB resident after warm waves (+0.0, allowed 4.0), peak 900.0 MiB',
  );
});

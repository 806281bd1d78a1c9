/** Which of the admitted counts `--slots auto` takes. */
import { expect, test } from 'vitest';
import { fastestSlots, type SlotChoice } from '../../../src/cli/capacity/standard-capacity.ts';
import type { ModelEvidence } from '../../../src/core/evidence/evidence.ts';
import { count, record, start } from '../../models/evidence/evidence-records.ts';

const MIB = 2 ** 20;
const machine = { cpu: 'test', cores: 4, freeBytes: 4_000 * MIB };

/** By count: times real time, and 200 MiB for one slot with 100 for each further one. */
function measured(speeds: readonly number[]): ModelEvidence {
  const counts = speeds.map((speed, at) => {
    const memory = [{ atMs: 0, phase: 'warm' as const, residentBytes: (200 + at * 100) * MIB }];
    const throughput = { audioSeconds: speed, wallSeconds: 1, samples: 1 };
    return count(at + 1, { starts: [{ ...start, memory }], throughput });
  });
  return record(counts, { machine: { cpu: 'test', cores: 4, memoryBytes: 1, os: 'test' } });
}

const CHOICES: readonly [string, readonly number[], Partial<SlotChoice>, number][] = [
  [
    'one process of all cores, where that is as fast: the weights are there once',
    [10, 20, 29, 39],
    {},
    4,
  ],
  ['two processes of two, where four slots get in each other’s way', [10, 20, 25, 28], {}, 2],
  ['one slot, where more gain nothing', [10, 11, 12, 13], {}, 1],
  ['no more than is admitted', [10, 20, 29, 39], { admitted: 2 }, 2],
  ['no more threads than cores', [10, 20, 29, 39], { threads: 2 }, 2],
  ['what one process can have, when one was asked for', [10, 19, 27, 34], { workers: 1 }, 4],
  [
    'no more than memory holds',
    [10, 20, 29, 39],
    { machine: { ...machine, freeBytes: 450 * MIB }, workers: 1 },
    3,
  ],
  [
    'by threads, where the measurements are of another machine',
    [10, 9, 8, 7],
    { machine: { ...machine, cpu: 'other' } },
    4,
  ],
];

test.each(CHOICES)('takes %s', (_, speeds, change, expected) => {
  const choice = { admitted: 4, record: measured(speeds), threads: 1, workers: undefined, machine };
  expect(fastestSlots({ ...choice, ...change })).toBe(expected);
});

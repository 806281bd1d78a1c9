import { expect, test } from 'vitest';
import { admittedSlots, type SlotAdmission } from '../../../src/runtime/slots/capacity.ts';
import { failure } from './slots-fixture.ts';

const base: SlotAdmission = {
  model: 'moonshine-tiny',
  requested: 1,
  evidence: 1,
  unvalidated: false,
  advertised: 8,
};

const admitted: [string, Partial<SlotAdmission>, number][] = [
  ['one slot without any evidence', {}, 1],
  [
    'one slot even where the family advertises none and memory is short',
    { advertised: 0, memory: 0 },
    1,
  ],
  ['a validated count', { requested: 4, evidence: 4 }, 4],
  ['a count without evidence when the operator takes it', { requested: 4, unvalidated: true }, 4],
  ['auto: one without evidence', { requested: 'auto' }, 1],
  ['auto: what evidence says', { requested: 'auto', evidence: 4 }, 4],
  ['auto: what the family can do', { requested: 'auto', evidence: 16, advertised: 2 }, 2],
  ['auto: what memory allows', { requested: 'auto', evidence: 4, memory: 3 }, 3],
  ['auto: sixteen at most', { requested: 'auto', evidence: 40, advertised: 40 }, 16],
];

test.each(admitted)('admits %s', (_, change, expected) => {
  expect(admittedSlots({ ...base, ...change })).toBe(expected);
});

const refused: [string, Partial<SlotAdmission>, unknown][] = [
  [
    'a count beyond the evidence, naming the command',
    { requested: 3, evidence: 2 },
    failure('CAPACITY_UNVALIDATED', 'run: wavepool models validate moonshine-tiny --slots 3'),
  ],
  [
    'a count beyond the family, whatever the operator says',
    { requested: 3, advertised: 2, unvalidated: true },
    failure('SLOTS_UNSUPPORTED', 'moonshine-tiny supports 2 at most, 3 were requested'),
  ],
  [
    'a count that memory does not allow',
    { requested: 4, evidence: 4, memory: 2 },
    failure('INSUFFICIENT_MEMORY', 'memory allows 2 slots'),
  ],
  ...[0, -1, 17, 1.5, Number.NaN].map((requested): [string, Partial<SlotAdmission>, unknown] => [
    `a count of ${requested}`,
    { requested, evidence: 16, advertised: 40 },
    failure('SLOTS_UNSUPPORTED', `${requested} is not within 1…16`),
  ]),
];

test.each(refused)('refuses %s', (_, change, error) => {
  expect(() => admittedSlots({ ...base, ...change })).toThrow(error);
});

import { expect, test } from 'vitest';
import { assertSlotsAdmitted, type SlotRequest } from '../../../src/runtime/models/slot-policy.ts';
import { failure } from '../slots/slots-fixture.ts';

const base: SlotRequest = {
  model: 'moonshine-tiny',
  slots: 1,
  evidence: 1,
  unvalidatedSlots: 0,
  supported: 8,
};

const admitted: [string, Partial<SlotRequest>][] = [
  ['one slot without any evidence', {}],
  ['one slot even where the family supports none', { supported: 0 }],
  ['a validated count', { slots: 4, evidence: 4 }],
  ['a count without evidence when the operator takes it', { slots: 4, unvalidatedSlots: 4 }],
  [
    'a validated count while it is not known what the family supports',
    { slots: 16, evidence: 16, supported: undefined },
  ],
];

test.each(admitted)('admits %s', (_, change) => {
  expect(() => assertSlotsAdmitted({ ...base, ...change })).not.toThrow();
});

const refused: [string, Partial<SlotRequest>, unknown][] = [
  [
    'a count beyond the evidence, naming the command',
    { slots: 3, evidence: 2 },
    failure('CAPACITY_UNVALIDATED', 'run: wavepool models validate moonshine-tiny --slots 3'),
  ],
  [
    'a count beyond what the operator takes',
    { slots: 3, unvalidatedSlots: 2 },
    failure('CAPACITY_UNVALIDATED', 'moonshine-tiny is validated for 1, 3 were requested'),
  ],
  [
    'a count beyond the family, whatever the operator says',
    { slots: 3, supported: 2, unvalidatedSlots: 16 },
    failure('SLOTS_UNSUPPORTED', 'moonshine-tiny supports 2 at most, 3 were requested'),
  ],
  ...[0, -1, 17, 1.5, Number.NaN].map((slots): [string, Partial<SlotRequest>, unknown] => [
    `a count of ${slots}`,
    { slots, evidence: 16, supported: 40 },
    failure('SLOTS_UNSUPPORTED', `${slots} is not within 1…16`),
  ]),
];

test.each(refused)('refuses %s', (_, change, error) => {
  expect(() => assertSlotsAdmitted({ ...base, ...change })).toThrow(error);
});

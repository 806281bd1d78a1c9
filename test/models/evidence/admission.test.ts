/** What evidence admits: exactly what was validated, for exactly what runs now. */
import { expect, test } from 'vitest';
import type { EvidenceIdentity } from '../../../src/core/evidence/evidence.ts';
import { type AdmissionQuestion, admittedCount } from '../../../src/models/evidence/admission.ts';
import { count, frameworkOf, identity, record, start, withEntry } from './evidence-records.ts';

function question(change: Partial<AdmissionQuestion> = {}): AdmissionQuestion {
  const model = record([count(1), count(2)]);
  return { identity, batch: 1, model, framework: frameworkOf('build-1'), ...change };
}

test('admits exactly what was validated for this backend, family, task and mode', () => {
  expect(admittedCount(question()).count).toBe(2);
});

const OTHERS: readonly [keyof EvidenceIdentity, string, RegExp][] = [
  ['backend', 'cuda', /validated was backend cpu, not cuda/],
  ['family', 'whisper', /family moonshine, not whisper/],
  ['task', 'vad', /task asr, not vad/],
  ['mode', 'streaming', /mode offline, not streaming/],
  ['model', 'moonshine-base', /the record is about moonshine-tiny/],
  ['checkpointSha256', 'b'.repeat(64), /the weights have changed/],
  ['build', 'build-2', /the native code has changed/],
];

test.each(OTHERS)('another %s has one slot, and hears why', (key, value, reason) => {
  const other = { ...identity, [key]: value };
  const { count: slots, reason: said } = admittedCount(question({ identity: other }));
  expect(slots).toBe(1);
  expect(said).toMatch(reason);
});

const REFUSED: readonly [string, Partial<AdmissionQuestion>, RegExp][] = [
  ['no record', { model: undefined }, /nothing has been validated in mode offline/],
  ['no framework record', { framework: undefined }, /wavepool framework validate/],
  [
    'the framework record of another build',
    { framework: frameworkOf('build-0') },
    /framework validate/,
  ],
  [
    'a framework entry that failed',
    { framework: frameworkOf('build-1', { F3: 'FAIL' }) },
    /F3 is FAIL/,
  ],
  ['an older procedure', { model: record([count(1), count(2)], { procedure: 99 }) }, /procedure/],
  ['larger batches than validated', { batch: 4 }, /batches of up to 1, not 4/],
  [
    'a failed entry',
    { model: record([count(1), withEntry(2, 'FAIL', 'it grew')]) },
    /M5 is FAIL \(it grew\)/,
  ],
  [
    'an entry that does not apply for no reason',
    { model: record([count(1), withEntry(2, 'NOT_APPLICABLE')]) },
    /M5/,
  ],
  [
    'an entry left out',
    { model: record([count(1), count(2, { entries: count(2).entries.slice(1) })]) },
    /M1 is missing/,
  ],
  [
    'two starts only',
    { model: record([count(1), count(2, { starts: [start, start] })]) },
    /2 whole starts/,
  ],
  [
    'a verdict that its starts belie',
    {
      model: record([count(1), count(2, { starts: [start, start, { ...start, mismatches: 1 }] })]),
    },
    /2 whole starts/,
  ],
];

test.each(REFUSED)('%s admits one slot', (_, change, reason) => {
  const { count: slots, reason: said } = admittedCount(question(change));
  expect(slots).toBe(1);
  expect(said).toMatch(reason);
});

test('only consecutive counts are admitted', () => {
  const gap = record([count(1), count(2), count(4)]);
  expect(admittedCount(question({ model: gap })).count).toBe(2);
  const failed = record([count(1), count(2), withEntry(3, 'FAIL'), count(4)]);
  expect(admittedCount(question({ model: failed })).count).toBe(2);
});

test('an entry that does not apply counts as passed when its reason is given', () => {
  const model = record([count(1), withEntry(2, 'NOT_APPLICABLE', 'it keeps no memory')]);
  expect(admittedCount(question({ model })).count).toBe(2);
});

test('evidence of a larger batch covers a smaller one', () => {
  const model = record([count(1), count(2)], {
    manifest: { threads: 1, batch: 8, seed: 1, ggml: '', compiler: '', flags: '', items: [] },
  });
  expect(admittedCount(question({ model, batch: 3 })).count).toBe(2);
});

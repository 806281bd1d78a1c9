/** The report of a validation, as a page. */
import { expect, test } from 'vitest';
import { renderReport } from '../../../src/models/report/report-page.ts';
import { count, frameworkOf, record, start, withEntry } from '../evidence/evidence-records.ts';

const MIB = 2 ** 20;
const memory = Array.from({ length: 12 }, (_, wave) => {
  return { atMs: wave * 100, phase: 'warm' as const, residentBytes: (150 + wave) * MIB, wave };
});
const throughput = { audioSeconds: 90, wallSeconds: 2, samples: 36 };
const evidence = record([
  count(1, { starts: [{ ...start, memory }], throughput }),
  withEntry(2, 'FAIL', 'wave 3: "a < b" instead of "a & b"'),
]);
const page = renderReport(evidence, frameworkOf('build-1'), { count: 1, reason: 'M5 is FAIL' });

test('the page needs nothing but itself', () => {
  expect(page).not.toMatch(/<script|<link|<img|\bsrc=|https?:|url\(/);
});

test('it tells verdicts, reasons, speed and memory', () => {
  expect(page).toContain('<b>1</b><span>slot admitted</span>');
  expect(page).toContain('M5 is FAIL.');
  expect(page).toContain('45.0 ×');
  expect(page).toContain('<polyline class="line start1"');
  expect(page).toContain(evidence.identity.checkpointSha256);
});

test('what models said is text, never markup', () => {
  expect(page).toContain('wave 3: &quot;a &lt; b&quot; instead of &quot;a &amp; b&quot;');
});

test('a record of a count that never ran is drawn, too', () => {
  const empty = record([count(1, { starts: [], verdict: 'PENDING' })]);
  const text = renderReport(empty, undefined, { count: 1, reason: 'nothing' });
  expect(text).toContain('Nothing was measured.');
  expect(text).toContain('wavepool framework validate');
});

import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import type { RunSummary } from '../../../src/bulk/summary.ts';
import { capacityOf } from '../../../src/cli/capacity/standard-capacity.ts';
import { describeProgress, showProgress } from '../../../src/cli/run/run-progress.ts';
import { describeSummary, exitCodeOfRun } from '../../../src/cli/run/run-report.ts';
import { formatBytes, formatDuration, shownPath } from '../../../src/cli/terminal/text.ts';

const SUMMARY: RunSummary = {
  found: 3,
  done: 2,
  finished: 0,
  failed: [],
  problems: [],
  skipped: 0,
  noSpeech: 0,
  audioSeconds: 120,
  wallSeconds: 4,
  timesRealTime: 30,
  interrupted: false,
};
const FAILURE = { path: '/in/b.mp3', code: 'INPUT_EMPTY', message: 'no audio: b.mp3' } as const;

test('the exit code says how a run ended', () => {
  expect(exitCodeOfRun(SUMMARY)).toBe(0);
  expect(exitCodeOfRun({ ...SUMMARY, failed: [FAILURE] })).toBe(1);
  expect(exitCodeOfRun({ ...SUMMARY, problems: [FAILURE] })).toBe(1);
  expect(exitCodeOfRun({ ...SUMMARY, failed: [FAILURE], interrupted: true })).toBe(130);
});

test('the final table has the figures and names each failure', () => {
  const text = describeSummary({ ...SUMMARY, failed: [FAILURE], skipped: 4, noSpeech: 1 }, '/in');
  expect(text).toContain('3 found, 2 done');
  expect(text).toContain('1 failed');
  expect(text).toContain('2 min 00 s in 4.0 s');
  expect(text).toContain('30.0 × real time');
  expect(text).toContain('  b.mp3: no audio: b.mp3 [INPUT_EMPTY]');
});

test('many failures are counted, not listed without end', () => {
  const failed = Array.from({ length: 60 }, (_, at) => ({ ...FAILURE, path: `/in/${at}` }));
  expect(describeSummary({ ...SUMMARY, failed }, '/in')).toContain('… and 10 more');
});

test('a file name cannot send control characters to the terminal', () => {
  expect(shownPath('/in/a\u001b[2J\n.wav', '/in')).toBe('a\\x1b[2J\\x0a.wav');
  expect(shownPath('/in/..a.wav', '/in')).toBe('..a.wav');
  expect(shownPath('/out/a.wav', '/in')).toBe('/out/a.wav');
});

test('progress shows files, audio, speed and what is left', () => {
  const progress = { total: 40, complete: true, settled: 10, failed: 1, audioSeconds: 1800 };
  expect(describeProgress(progress, 60)).toBe(
    '10/40 files · 0.50 h audio · 30.0 × real time · ETA 3 min 00 s · 1 failed',
  );
  expect(describeProgress({ ...progress, complete: false, failed: 0 }, 60)).toBe(
    '10/40+ files · 0.50 h audio · 30.0 × real time',
  );
});

test.each([
  [0.04, '0.0 s'],
  [59.94, '59.9 s'],
  [59.96, '1 min 00 s'],
  [3599.6, '1 h 00 min'],
  [7380, '2 h 03 min'],
])('%d seconds read %s', (seconds, text) => {
  expect(formatDuration(seconds)).toBe(text);
});

test('bytes read in the unit that fits', () => {
  expect([0, 1023, 1024, 5 * 1024 ** 3].map(formatBytes)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '5.0 GiB',
  ]);
});

test('one worker of one thread per core, as far as cores and memory go, unless told otherwise', () => {
  const options = { slots: 'auto', batch: 'auto', threads: 1, workers: 'auto' } as const;
  const roomy = { cores: 4, freeBytes: 64 * 2 ** 30 };
  expect(capacityOf(options, roomy)).toEqual({
    slots: 1,
    unvalidatedSlots: 0,
    batch: 8,
    threads: 1,
    workers: 4,
  });
  const slots = { ...options, unvalidatedSlots: 2 };
  expect(capacityOf(slots, roomy)).toMatchObject({ slots: 2, unvalidatedSlots: 2, workers: 2 });
  expect(capacityOf({ ...options, threads: 3 }, roomy)).toMatchObject({ threads: 3, workers: 1 });
  expect(capacityOf({ ...options, workers: 7 }, roomy)).toMatchObject({ workers: 7 });
  expect(capacityOf(options, { ...roomy, cores: 96 })).toMatchObject({ workers: 8 });
  expect(capacityOf(options, { ...roomy, freeBytes: 10 })).toMatchObject({ workers: 1 });
});

test('away from a terminal progress is a line every half minute', () => {
  const output = new PassThrough();
  let now = 0;
  const view = showProgress(output, () => now);
  const progress = { total: 4, complete: true, settled: 1, failed: 0, audioSeconds: 60 };
  for (now = 1000; now <= 65_000; now += 1000) view.update(progress);
  view.close();
  view.update(progress);
  expect(String(output.read()).split('\n').length - 1).toBe(2);
});

test('on a terminal the bar is gone at the end, and what was written beside it stays', () => {
  const output = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
  const view = showProgress(output, () => 0);
  view.update({ total: 4, complete: true, settled: 1, failed: 0, audioSeconds: 60 });
  view.aside(() => output.write('a transcript\n'));
  view.close();
  view.close();
  const text = String(output.read());
  expect(text).toContain('1/4 files');
  // Saving the cursor below the line is what keeps it from being overwritten when the bar is cleared.
  expect(text).toContain('a transcript\n\u001b[?7l\u001b7');
  expect(text.endsWith('\u001b[2K')).toBe(true);
});

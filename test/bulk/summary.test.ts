import { expect, test } from 'vitest';
import { RunTally } from '../../src/bulk/summary.ts';

function failure(path: string) {
  return { path, code: 'INPUT_UNDECODABLE', message: 'no' } as const;
}

test('a summary counts every kind of end once, failures in the order of their paths', () => {
  let now = 1000;
  const tally = new RunTally(() => now);
  for (const path of ['/a', '/b', '/c', '/d', '/e', '/f']) tally.add({ type: 'found', path });
  tally.add({ type: 'skipped', path: '/notes' });
  tally.add({ type: 'finished', path: '/a' });
  tally.add({ type: 'progress', path: '/b', processedSeconds: 5 });
  tally.add({ type: 'done', path: '/b', audioSeconds: 9, noSpeech: false, rendered: false });
  tally.add({ type: 'done', path: '/c', audioSeconds: 7, noSpeech: true, rendered: true });
  tally.add({ type: 'done', path: '/d', audioSeconds: 1, noSpeech: true, rendered: false });
  tally.add({ type: 'failed', known: false, ...failure('/f') });
  tally.add({ type: 'failed', known: true, ...failure('/e') });
  tally.add({ type: 'problem', ...failure('/closed') });
  now = 3000;
  expect(tally.summary(false)).toEqual({
    found: 6,
    done: 3,
    finished: 1,
    failed: [failure('/e'), failure('/f')],
    problems: [failure('/closed')],
    skipped: 1,
    noSpeech: 2,
    audioSeconds: 10,
    wallSeconds: 2,
    timesRealTime: 5,
    interrupted: false,
  });
});

test('progress counts the audio of running inputs until they end', () => {
  const tally = new RunTally(() => 0);
  tally.add({ type: 'found', path: '/a' });
  tally.add({ type: 'found', path: '/b' });
  tally.add({ type: 'progress', path: '/a', processedSeconds: 4 });
  tally.add({ type: 'progress', path: '/b', processedSeconds: 2 });
  expect(tally.progress()).toMatchObject({ settled: 0, audioSeconds: 6, complete: false });
  tally.add({ type: 'done', path: '/a', audioSeconds: 10, noSpeech: false, rendered: false });
  tally.add({ type: 'failed', known: false, ...failure('/b') });
  tally.add({ type: 'scanned' });
  expect(tally.progress()).toEqual({
    total: 2,
    complete: true,
    settled: 2,
    failed: 1,
    audioSeconds: 10,
  });
});

test('the number of inputs is known as soon as they are counted ahead', () => {
  const tally = new RunTally(() => 0);
  tally.add({ type: 'found', path: '/a' });
  tally.add({ type: 'counted', inputs: 9 });
  expect(tally.progress()).toMatchObject({ total: 9, complete: true });
});

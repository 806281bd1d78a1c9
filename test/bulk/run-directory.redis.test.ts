import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { OutputFolder } from '../../src/bulk/output-folder.ts';
import type { RunDirectoryOptions } from '../../src/bulk/run-directory.ts';
import type { RunEvent, RunSummary } from '../../src/bulk/summary.ts';
import { watchInputs } from '../../src/bulk/watch-inputs.ts';
import { ManualWatchClock } from './manual-watch-clock.ts';
import {
  at,
  codes,
  outputs,
  queue,
  run,
  runWithWorker,
  startWorker,
  write,
} from './run-fixture.ts';

test('every input of a tree is transcribed once, failures are named, other files are skipped', async () => {
  write({
    'a.wav': 'alpha',
    'sub/b.mp3': 'beta',
    'sub/c.wav': 'gamma',
    'sub/c.mp3': 'delta',
    'silence.wav': '',
    'broken.ogg': 'fail INPUT_UNDECODABLE',
    'notes.txt': 'no audio',
  });
  const events: RunEvent['type'][] = [];
  const { summary, ran } = await runWithWorker({ onEvent: ({ type }) => events.push(type) });
  expect(outputs()).toEqual({
    'a.txt': 'alpha\n',
    'silence.txt': '',
    'sub/b.txt': 'beta\n',
    'sub/c.mp3.txt': 'delta\n',
    'sub/c.wav.txt': 'gamma\n',
  });
  expect(summary).toMatchObject({ found: 6, done: 5, finished: 0, skipped: 1, noSpeech: 1 });
  expect(summary).toMatchObject({ audioSeconds: 5, interrupted: false, problems: [] });
  expect(codes(summary)).toEqual({ 'broken.ogg': 'INPUT_UNDECODABLE' });
  expect(ran.toSorted()).toEqual(['a.wav', 'b.mp3', 'broken.ogg', 'c.mp3', 'c.wav', 'silence.wav']);
  expect(events).toContain('progress');
  expect(events).toContain('counted');
});

test('odd names reach the worker and the outputs unchanged', async () => {
  const stems = [
    'Привет',
    '日本',
    '🎧',
    'e\u0301',
    '\u00e9',
    '-x',
    "a;b'c",
    '#%20&',
    'я'.repeat(100),
  ];
  write(Object.fromEntries(stems.map((stem) => [`${stem}/${stem}.wav`, stem])));
  const { summary } = await runWithWorker();
  expect(summary).toMatchObject({ done: stems.length, failed: [] });
  const expected = stems.map((stem) => [`${stem}/${stem}.txt`, `${stem}\n`]);
  expect(outputs()).toEqual(Object.fromEntries(expected));
});

test('only so many jobs are in the queue at once', async () => {
  const names = Array.from({ length: 10 }, (_, index) => `${index}.wav`);
  write(Object.fromEntries(names.map((name) => [name, name])));
  const most: number[] = [];
  await using _ = startWorker(async () => {
    const { waiting, running } = await queue.counts();
    most.push(waiting + running);
  });
  await run({ maxInFlight: 3 });
  expect(Math.max(...most)).toBeLessThanOrEqual(3);
  expect(most.length).toBe(10);
});

test('how many is asked for once, and not by a run that has nothing to do', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'beta', 'c.wav': 'gamma' });
  let asked = 0;
  const maxInFlight = () => {
    asked += 1;
    return Promise.resolve(2);
  };
  expect((await runWithWorker({ maxInFlight })).summary.done).toBe(3);
  expect(asked).toBe(1);
  expect(await run({ maxInFlight })).toMatchObject({ done: 0, finished: 3 });
  expect(asked).toBe(1);
  write({ 'd.wav': 'delta' });
  const failing = () => Promise.reject(new Error('no capacity'));
  await expect(run({ maxInFlight: failing })).rejects.toThrow('no capacity');
});

test('transcripts are handed over without files, those of finished inputs again', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'beta' });
  const printed: string[] = [];
  const options: Partial<RunDirectoryOptions> = {
    formats: [],
    onTranscript: (file, { text }) => printed.push(`${path.basename(file)} ${text}`),
  };
  await runWithWorker(options);
  await run(options);
  expect(printed.toSorted()).toEqual(['a.wav alpha', 'a.wav alpha', 'b.wav beta', 'b.wav beta']);
  expect(outputs()).toEqual({});
});

test('an output that cannot be written fails its input only, and is written by the next run', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'beta' });
  mkdirSync(at('out/a.txt'), { recursive: true });
  const first = await runWithWorker();
  expect(codes(first.summary)).toEqual({ 'a.wav': 'STORAGE_FULL' });
  expect(outputs()).toEqual({ 'b.txt': 'beta\n' });
  rmSync(at('out/a.txt'), { recursive: true });
  expect(await run()).toMatchObject({ done: 1, finished: 1, failed: [] });
  expect(outputs()).toEqual({ 'a.txt': 'alpha\n', 'b.txt': 'beta\n' });
});

test('two runs cannot use one output directory at once', async () => {
  write({ 'a.wav': 'alpha' });
  const held = await OutputFolder.open(at('out'));
  await expect(run()).rejects.toMatchObject({ code: 'OUTPUT_BUSY' });
  await held.close();
  expect((await runWithWorker()).summary.done).toBe(1);
});

test('a queue that cannot be opened ends the run with its reason', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'beta' });
  const openQueue = () => Promise.reject(new Error('no workers'));
  await expect(run({ openQueue })).rejects.toThrow('no workers');
});

test('audio without a header: every file is an input and declared; another declaration is other work', async () => {
  write({ 'call.ul': 'alpha', 'sub/42': 'beta', '.hidden': 'no recording' });
  const mulaw = { codec: 'mulaw', sampleRate: 8_000, channels: 1 } as const;
  const first = await runWithWorker({ rawFormat: mulaw });
  expect(outputs()).toEqual({ 'call.txt': 'alpha\n', 'sub/42.txt': 'beta\n' });
  const listed = await queue.list({ states: ['completed'], limit: 9 });
  expect(listed.map(({ data }) => data.input.rawFormat)).toEqual([mulaw, mulaw]);
  expect(first.summary).toMatchObject({ done: 2, skipped: 1 });
  const again = await runWithWorker({ rawFormat: mulaw });
  expect(again.summary).toMatchObject({ finished: 2, done: 0 });
  const other = await runWithWorker({ rawFormat: { ...mulaw, sampleRate: 16_000 } });
  expect(other.summary).toMatchObject({ finished: 0, done: 2 });
});

test('a watched directory: what comes in is transcribed, and after a restart only what is new', async () => {
  const clock = new ManualWatchClock();
  const settings = { directory: at('in'), out: at('out'), stableMs: 1_000, rescanMs: 5_000, clock };
  /** Watches until that many inputs are done. */
  const watch = async (inputs: number): Promise<RunSummary> => {
    const halt = new AbortController();
    let done = 0;
    const ended = run({
      source: (signal) => watchInputs(settings, signal),
      signal: halt.signal,
      onEvent: ({ type }) => {
        if (type === 'done' || type === 'finished') done += 1;
        if (done === inputs) halt.abort();
      },
    });
    await clock.pass(settings.stableMs);
    return ended;
  };
  await using worker = startWorker();
  write({ 'a.wav': 'alpha' });
  expect(await watch(1)).toMatchObject({ done: 1, finished: 0 });
  write({ 'sub/b.wav': 'beta' });
  expect(await watch(2)).toMatchObject({ done: 1, finished: 1 });
  expect(worker.ran).toEqual(['a.wav', 'b.wav']);
  expect(outputs()).toEqual({ 'a.txt': 'alpha\n', 'sub/b.txt': 'beta\n' });
});

test('many jobs at once are no cause for a warning about leaks', async () => {
  const warnings: string[] = [];
  const listen = (warning: Error): void => {
    warnings.push(warning.name);
  };
  process.on('warning', listen);
  write(Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`${index}.wav`, 'x'])));
  await runWithWorker({ maxInFlight: 16 });
  process.off('warning', listen);
  expect(warnings).toEqual([]);
});

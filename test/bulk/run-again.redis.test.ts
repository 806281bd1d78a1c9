/** What a run does about what earlier ones have done, or left. */
import { rmSync, utimesSync, writeFileSync } from 'node:fs';
import { expect, test, vi } from 'vitest';
import { resolveRoots } from '../../src/bulk/scan.ts';
import { WavepoolError } from '../../src/core/errors.ts';
import {
  at,
  codes,
  outputs,
  queue,
  queuesOpened,
  run,
  runWithWorker,
  startWorker,
  write,
} from './run-fixture.ts';

test('a second call does nothing, opens no queue, and reports the same failures', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'fail INPUT_UNDECODABLE', 'c.wav': 'fail INPUT_EMPTY' });
  const first = await runWithWorker();
  const before = outputs();
  const opened = queuesOpened;
  const second = await run();
  expect(queuesOpened).toBe(opened);
  expect(second).toMatchObject({ found: 3, done: 0, finished: 1, audioSeconds: 0 });
  expect(second.failed).toEqual(first.summary.failed);
  expect(outputs()).toEqual(before);
});

test('a failure of the environment is tried again by every next run until it is gone', async () => {
  write({ 'a.m4a': 'alpha', 'b.wav': 'beta' });
  let installed = false;
  const needFfmpeg = (name: string): void => {
    if (name === 'a.m4a' && !installed) throw new WavepoolError('FFMPEG_MISSING', name);
  };
  await using worker = startWorker(needFfmpeg);
  for (let attempt = 1; attempt <= 2; attempt += 1)
    expect(codes(await run())).toEqual({ 'a.m4a': 'FFMPEG_MISSING' });
  installed = true;
  expect(await run()).toMatchObject({ done: 1, finished: 1, failed: [] });
  expect(worker.ran.toSorted()).toEqual(['a.m4a', 'a.m4a', 'a.m4a', 'b.wav']);
  expect(outputs()).toEqual({ 'a.txt': 'alpha\n', 'b.txt': 'beta\n' });
});

test('a run stopped in the middle is taken up where it was', async () => {
  const names = Array.from({ length: 12 }, (_, index) => `${String(index).padStart(2, '0')}.wav`);
  write(Object.fromEntries(names.map((name) => [name, name])));
  const abort = new AbortController();
  const worker = startWorker();
  const first = await run({
    signal: abort.signal,
    finishRunning: () => worker.close(),
    onEvent: (event) => {
      if (event.type === 'done') abort.abort();
    },
  });
  expect(first.interrupted).toBe(true);
  expect(first.done).toBeGreaterThanOrEqual(1);
  expect(first.done).toBeLessThan(names.length);
  expect(Object.keys(outputs()).length).toBe(first.done);

  const { summary, ran } = await runWithWorker();
  expect(summary).toMatchObject({
    found: 12,
    finished: first.done,
    interrupted: false,
    failed: [],
  });
  expect(summary.done).toBe(12 - first.done);
  expect([...worker.ran, ...ran].toSorted()).toEqual(names);
  expect(Object.keys(outputs())).toEqual(names.map((name) => name.replace('.wav', '.txt')));
});

test('jobs that wait in the queue since an earlier run are found again, not added twice', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'beta' });
  const abort = new AbortController();
  let submitted = 0;
  const first = await run({
    signal: abort.signal,
    onEvent: (event) => {
      if (event.type === 'submitted') submitted += 1;
      if (submitted === 2) abort.abort();
    },
  });
  expect(first).toMatchObject({ interrupted: true, done: 0, failed: [] });
  expect((await queue.counts()).waiting).toBe(2);
  const { summary, ran } = await runWithWorker();
  expect(summary.done).toBe(2);
  expect(ran).toEqual(['a.wav', 'b.wav']);
});

test('a job that the queue has lost, as a failover may, is added again', async () => {
  write({ 'a.wav': 'alpha' });
  let submissions = 0;
  const running = run({
    onEvent: ({ type }) => {
      if (type === 'submitted') submissions += 1;
      // It is told in the middle of the wait for the job that is taken away now.
      if (type === 'submitted' && submissions === 1) void loseJob();
    },
  });
  async function loseJob(): Promise<void> {
    const [lost] = await queue.list({ limit: 1 });
    await queue.remove(lost?.id ?? '');
  }
  await vi.waitUntil(() => submissions === 2, { timeout: 20_000 });
  const worker = startWorker();
  expect(await running).toMatchObject({ done: 1, failed: [] });
  await worker.close();
  expect(worker.ran).toEqual(['a.wav']);
});

test('a job that ended while nobody listened is only rendered', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'fail INPUT_UNDECODABLE' });
  const abort = new AbortController();
  let submitted = 0;
  await run({
    signal: abort.signal,
    onEvent: ({ type }) => {
      if (type === 'submitted') submitted += 1;
      if (submitted === 2) abort.abort();
    },
  });
  const ends = Promise.all([
    new Promise((resolve) => queue.on('completed', resolve)),
    new Promise((resolve) => queue.on('failed', resolve)),
  ]);
  {
    await using _ = startWorker();
    await ends;
  }
  const summary = await run();
  expect(summary).toMatchObject({ done: 1 });
  expect(codes(summary)).toEqual({ 'b.wav': 'INPUT_UNDECODABLE' });
  expect(outputs()).toEqual({ 'a.txt': 'alpha\n' });
});

test('a new format of finished inputs is rendered without a job, and so is a deleted output', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'beta' });
  await runWithWorker();
  rmSync(at('out/b.txt'));
  const opened = queuesOpened;
  const summary = await run({ formats: ['txt', 'vtt'] });
  expect(queuesOpened).toBe(opened);
  expect(summary).toMatchObject({ done: 2, audioSeconds: 0 });
  expect(Object.keys(outputs())).toEqual(['a.txt', 'a.vtt', 'b.txt', 'b.vtt']);
  expect(await run({ formats: ['vtt'] })).toMatchObject({ done: 0, finished: 2 });
});

test('an input whose stored transcript vanished is transcribed again', async () => {
  write({ 'a.wav': 'alpha' });
  await runWithWorker();
  rmSync(at('results'), { recursive: true });
  rmSync(at('out/a.txt'));
  const { summary, ran } = await runWithWorker();
  expect(ran).toEqual(['a.wav']);
  expect(summary.done).toBe(1);
  expect(outputs()).toEqual({ 'a.txt': 'alpha\n' });
});

test('a changed input is done again, one that was only touched is not', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'beta' });
  await runWithWorker();
  const later = new Date(Date.now() + 60_000);
  writeFileSync(at('in/a.wav'), 'ALPHA');
  for (const name of ['a.wav', 'b.wav']) utimesSync(at('in', name), later, later);
  const { summary, ran } = await runWithWorker();
  expect(ran).toEqual(['a.wav']);
  expect(summary).toMatchObject({ done: 1, finished: 1 });
  expect(outputs()).toEqual({ 'a.txt': 'ALPHA\n', 'b.txt': 'beta\n' });
  expect(await run()).toMatchObject({ done: 0, finished: 2 });
});

test('other weights make every input new', async () => {
  write({ 'a.wav': 'alpha' });
  await runWithWorker();
  const { ran } = await runWithWorker({ checkpoint: 'weights-2' });
  expect(ran).toEqual(['a.wav']);
});

test('two inputs that take turns in one output always get their own text', async () => {
  write({ 'x/a.wav': 'from x', 'y/a.wav': 'from y' });
  const x = { roots: await resolveRoots([at('in/x')]) };
  const y = { roots: await resolveRoots([at('in/y')]) };
  await runWithWorker(x);
  await runWithWorker(y);
  expect(outputs()).toEqual({ 'a.txt': 'from y\n' });
  expect(await run(x)).toMatchObject({ done: 1 });
  expect(outputs()).toEqual({ 'a.txt': 'from x\n' });
});

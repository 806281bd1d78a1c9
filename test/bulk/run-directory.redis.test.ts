import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { OutputFolder } from '../../src/bulk/output-folder.ts';
import { type RunDirectoryOptions, runDirectory } from '../../src/bulk/run-directory.ts';
import { resolveRoots } from '../../src/bulk/scan.ts';
import type { RunEvent, RunSummary } from '../../src/bulk/summary.ts';
import { watchInputs } from '../../src/bulk/watch-inputs.ts';
import { WavepoolError } from '../../src/core/errors.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { startRedis, type TestRedis, temporaryFolder } from '../support/redis.ts';
import { ManualWatchClock } from './manual-watch-clock.ts';
import { startTranscribingWorker, type TranscribingWorker } from './transcribing-worker.ts';

let redis: TestRedis;
let models = 0;
let model = '';
let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let results: LocalResultStore;
let queue: AudioQueue;
let queuesOpened = 0;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());
beforeEach(async () => {
  models += 1;
  model = `run-${models}`;
  folder = await temporaryFolder();
  results = await LocalResultStore.open(at('results'));
  queue = await AudioQueue.open({ address: redis.address, model, whenDisconnected: 'wait' });
  queuesOpened = 0;
});
afterEach(async () => {
  await queue.close();
  await folder[Symbol.asyncDispose]();
});

function at(...names: string[]): string {
  return path.join(folder.path, ...names);
}

function write(files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(at('in', name)), { recursive: true });
    writeFileSync(at('in', name), content);
  }
}

function startWorker(before?: (name: string) => Promise<void> | void): TranscribingWorker {
  const { address } = redis;
  return startTranscribingWorker({ address, model, results, ...(before ? { before } : {}) });
}

async function run(options: Partial<RunDirectoryOptions> = {}): Promise<RunSummary> {
  return runDirectory({
    roots: await resolveRoots([at('in')]),
    out: at('out'),
    formats: ['txt'],
    results,
    openQueue: () => {
      queuesOpened += 1;
      return Promise.resolve(queue);
    },
    model,
    checkpoint: 'weights-1',
    maxInFlight: 4,
    ...options,
  });
}

/** Runs with a worker of its own. */
async function runWithWorker(options: Partial<RunDirectoryOptions> = {}) {
  await using worker = startWorker();
  return { summary: await run(options), ran: worker.ran };
}

function outputs(): Record<string, string> {
  const names = readdirSync(at('out'), { recursive: true, encoding: 'utf8', withFileTypes: true });
  const files = names
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(at('out'), path.join(entry.parentPath, entry.name)))
    .filter((name) => !name.startsWith('.wavepool'));
  return Object.fromEntries(
    files.toSorted().map((name) => [name, readFileSync(at('out', name), 'utf8')]),
  );
}

function codes(summary: RunSummary): Record<string, string> {
  return Object.fromEntries(
    summary.failed.map(({ path: file, code }) => [path.relative(at('in'), file), code]),
  );
}

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

test('a second call does nothing, opens no queue, and reports the same failures', async () => {
  write({ 'a.wav': 'alpha', 'b.wav': 'fail INPUT_UNDECODABLE', 'c.wav': 'fail INPUT_EMPTY' });
  const first = await runWithWorker();
  const before = outputs();
  queuesOpened = 0;
  const second = await run();
  expect(queuesOpened).toBe(0);
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
  queuesOpened = 0;
  const summary = await run({ formats: ['txt', 'vtt'] });
  expect(queuesOpened).toBe(0);
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

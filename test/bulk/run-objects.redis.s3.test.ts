import { PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { type RunDirectoryOptions, runDirectory } from '../../src/bulk/run-directory.ts';
import { resolveObjectRoots, scanObjects } from '../../src/bulk/scan-objects.ts';
import type { RunSummary } from '../../src/bulk/summary.ts';
import { type ObjectPlace, parseObjectPlace, type S3Settings } from '../../src/core/s3-settings.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { openStorage, type Storage } from '../../src/storage/open-storage.ts';
import { openBucket } from '../../src/storage/s3/bucket.ts';
import { startRedis, type TestRedis, temporaryFolder } from '../support/redis.ts';
import { S3Server } from '../support/s3.ts';
import { startTranscribingWorker } from './transcribing-worker.ts';

// The time that a process takes to start is no concern of these tests.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let redis: TestRedis;
let s3: S3Server;
let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let bucket: string;
let settings: S3Settings;
let storage: Storage;
let models = 0;
let model: string;
let queue: AudioQueue;
let queuesOpened: number;

beforeAll(async () => {
  [redis, s3] = await Promise.all([startRedis(), S3Server.start()]);
});
afterAll(async () => {
  await redis[Symbol.asyncDispose]();
  await s3[Symbol.asyncDispose]();
});
beforeEach(async () => {
  folder = await temporaryFolder();
  bucket = await s3.makeBucket();
  const place = parseObjectPlace(`s3://${bucket}/out/.wavepool`);
  const inputRoots = [parseObjectPlace(`s3://${bucket}`)];
  settings = s3.settings(bucket, { place, inputRoots, patienceMs: 500 });
  storage = await openStorage({ s3: settings, resultsDir: folder.path });
  models += 1;
  model = `objects-${models}`;
  queue = await AudioQueue.open({ address: redis.address, model, whenDisconnected: 'wait' });
  queuesOpened = 0;
});
afterEach(async () => {
  await queue.close();
  await folder[Symbol.asyncDispose]();
});

async function put(objects: Readonly<Record<string, string>>): Promise<void> {
  for (const [Key, Body] of Object.entries(objects)) {
    await s3.client().send(new PutObjectCommand({ Bucket: bucket, Key, Body: Buffer.from(Body) }));
  }
}

async function textOf(key: string): Promise<string | undefined> {
  return (await openBucket(settings, { bucket, prefix: '' })).read(key);
}

interface Wanted extends Partial<RunDirectoryOptions> {
  readonly addresses?: readonly string[];
  readonly outPlace?: ObjectPlace;
  /** See `TranscribingWorkerOptions`. */
  readonly before?: (name: string) => Promise<void> | undefined;
}

async function run(wanted: Wanted = {}): Promise<{ summary: RunSummary; ran: readonly string[] }> {
  const { addresses = [`s3://${bucket}/in`], outPlace, before, ...options } = wanted;
  const { results, places } = storage;
  const out = outPlace ?? parseObjectPlace(`s3://${bucket}/out`);
  const { address } = redis;
  await using worker = startTranscribingWorker({
    ...{ address, model, results, places },
    ...(before === undefined ? {} : { before }),
  });
  const roots = await resolveObjectRoots(addresses, settings);
  const summary = await runDirectory({
    roots: { files: [], directories: [] },
    scan: (signal) => scanObjects(roots, { s3: settings, out, signal }),
    out: folder.path,
    outBucket: await openBucket(settings, out),
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
  return { summary, ran: worker.ran };
}

test('every audio object below a prefix has its text beside the others, and a second call does nothing', async () => {
  await put({
    'in/a.wav': 'first',
    'in/a.mp3': 'second',
    'in/may/b.wav': 'third',
    'in/notes.txt': 'no audio',
    'in/may/': '',
    'input/c.wav': 'elsewhere',
  });
  const { summary, ran } = await run();
  expect(summary).toMatchObject({ found: 3, done: 3, skipped: 2, failed: [], problems: [] });
  expect(ran.toSorted()).toEqual(['a.mp3', 'a.wav', 'b.wav']);
  expect(await textOf('out/a.wav.txt')).toBe('first\n');
  expect(await textOf('out/a.mp3.txt')).toBe('second\n');
  expect(await textOf('out/may/b.wav.txt')).toBe('third\n');
  const results = (await s3.keys(bucket)).filter((key) => key.startsWith('out/.wavepool/results/'));
  expect(results).toHaveLength(3);
  const opened = queuesOpened;
  const again = await run();
  expect(again.summary).toMatchObject({ found: 3, finished: 3, done: 0 });
  expect(again.ran).toEqual([]);
  expect(queuesOpened).toBe(opened);
});

test('a changed object is new work, though its size and time are as before, and a lost output is written again', async () => {
  await put({ 'in/a.wav': 'before', 'in/b.wav': 'stays' });
  await run();
  await put({ 'in/a.wav': 'after!' });
  await (await openBucket(settings, { bucket, prefix: 'out/' })).remove('b.wav.txt');
  const { summary, ran } = await run();
  expect(ran).toEqual(['a.wav']);
  expect(summary).toMatchObject({ found: 2, failed: [] });
  expect(await textOf('out/a.wav.txt')).toBe('after!\n');
  expect(await textOf('out/b.wav.txt')).toBe('stays\n');
});

test('a broken object is reported and stops nothing; names that can be no path are problems', async () => {
  await put({
    'in/bad.wav': 'fail INPUT_UNDECODABLE',
    'in/good.wav': 'good',
    'in//twice.wav': 'one',
    'in/a/../up.wav': 'two',
  });
  const { summary } = await run();
  expect(summary.failed).toMatchObject([
    { path: `s3://${bucket}/in/bad.wav`, code: 'INPUT_UNDECODABLE' },
  ]);
  expect(summary.problems.map(({ code }) => code)).toEqual(['INVALID_REQUEST', 'INVALID_REQUEST']);
  expect(await textOf('out/good.wav.txt')).toBe('good\n');
});

test('outputs may go below the inputs and are no inputs then', async () => {
  await put({ 'in/a.wav': 'text', 'in/out/b.wav': 'not this' });
  const { ran } = await run({ outPlace: parseObjectPlace(`s3://${bucket}/in/out`) });
  expect(ran).toEqual(['a.wav']);
});

test('single objects and several prefixes keep apart', async () => {
  await put({ 'x/may/a.wav': 'x', 'y/may/a.wav': 'y', 'y/may/b.wav': 'b' });
  const addresses = ['x/may/a.wav', 'y/may', 'y/may/b.wav'].map((key) => `s3://${bucket}/${key}`);
  const { summary } = await run({ addresses });
  expect(summary).toMatchObject({ found: 3, done: 3 });
  const texts = (await s3.keys(bucket)).filter((key) => key.endsWith('.txt'));
  expect(texts).toHaveLength(3);
  const alone = await run({
    addresses: [`s3://${bucket}/x/may/a.wav`],
    outPlace: parseObjectPlace(`s3://${bucket}/alone`),
  });
  expect(alone.summary.found).toBe(1);
  expect(await textOf('alone/a.wav.txt')).toBe('x\n');
});

test('what is not there, may not be read or is no bucket is said before anything begins', async () => {
  await put({ 'in/a.wav': 'text' });
  const resolve = (address: string) => resolveObjectRoots([address], settings);
  await expect(resolve(`s3://${bucket}/nothing`)).rejects.toMatchObject({
    code: 'INPUT_NOT_FOUND',
  });
  await expect(resolve('s3://no-such-bucket/in')).rejects.toMatchObject({
    code: 'STORAGE_UNSUITABLE',
  });
  await s3.refuseEverybody(true);
  try {
    await expect(resolve(`s3://${bucket}/in`)).rejects.toMatchObject({ code: 'STORAGE_FORBIDDEN' });
  } finally {
    await s3.refuseEverybody(false);
  }
  await s3.cut();
  await expect(resolve(`s3://${bucket}/in`)).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' });
  await s3.restore();
});

test('a store that refuses in the middle fails what it refused, and the next run goes on', async () => {
  await put({ 'in/a.wav': 'first', 'in/b.wav': 'second' });
  const before = (name: string) => (name === 'b.wav' ? s3.refuseEverybody(true) : undefined);
  try {
    const { summary } = await run({ before, maxInFlight: 1 });
    expect(summary).toMatchObject({ done: 1, failed: [{ code: 'STORAGE_FORBIDDEN' }] });
  } finally {
    await s3.refuseEverybody(false);
  }
  const { summary, ran } = await run();
  expect(ran).toEqual(['b.wav']);
  expect(summary).toMatchObject({ found: 2, done: 1, finished: 1, failed: [], problems: [] });
  expect(await textOf('out/b.wav.txt')).toBe('second\n');
});

test('a listing has as many pages as it needs', async () => {
  await using paged = await S3Server.start({ MOTO_S3_DEFAULT_MAX_KEYS: '3' });
  const Bucket = await paged.makeBucket();
  const names = Array.from({ length: 10 }, (_, at) => `in/${at}.wav`);
  for (const Key of names) {
    await paged.client().send(new PutObjectCommand({ Bucket, Key, Body: Buffer.from('x') }));
  }
  expect(await paged.keys(Bucket)).toHaveLength(3);
  const there = paged.settings(Bucket);
  const roots = await resolveObjectRoots([`s3://${Bucket}/in/`], there);
  const listed: string[] = [];
  for await (const { path } of scanObjects(roots, { s3: there })) listed.push(path);
  expect(listed).toEqual(names.map((name) => `s3://${Bucket}/${name}`));
});

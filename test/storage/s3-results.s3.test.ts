import { fork } from 'node:child_process';
import { once } from 'node:events';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { S3Settings } from '../../src/core/s3-settings.ts';
import { openStorage } from '../../src/storage/open-storage.ts';
import type { ResultStore } from '../../src/storage/result-store.ts';
import { compileProgram } from '../support/compile.ts';
import { S3Server } from '../support/s3.ts';
import { transcriptOf } from '../support/transcript.ts';

let server: S3Server;
let bucket: string;
let store: ResultStore;
// The time that processes take to start is no concern of these tests.
vi.setConfig({ testTimeout: 60_000 });

beforeAll(async () => {
  server = await S3Server.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  bucket = await server.makeBucket();
  store = await openResults();
});

async function openResults(more: Partial<S3Settings> = {}): Promise<ResultStore> {
  const s3 = server.settings(bucket, more);
  return (await openStorage({ s3, resultsDir: '/nowhere' })).results;
}

test('a committed result is read back as it was, and is the only object', async () => {
  const transcript = transcriptOf('job', 'hello – ça va? 你好');
  const { committed, key } = await store.commit('job', transcript);
  expect(committed).toBe(true);
  expect(key).toBe(store.keyOf('job'));
  expect(await store.read(key)).toEqual(transcript);
  expect(await server.keys(bucket)).toEqual([`wave/pool/results/${key}`]);
});

test('a removed result is gone, and may be committed anew', async () => {
  const { key } = await store.commit('job', transcriptOf('job', 'old'));
  expect(await store.remove(key)).toBe(true);
  expect(await store.remove(key)).toBe(false);
  await expect(store.read(key)).rejects.toMatchObject({ code: 'RESULT_NOT_FOUND' });
  expect((await store.commit('job', transcriptOf('job', 'new'))).committed).toBe(true);
});

test('keys that are not ours reach nothing', async () => {
  for (const key of ['', '../../probe', 'ab/cd.json', `ab/${'0'.repeat(64)}.json/..`]) {
    await expect(store.read(key)).rejects.toMatchObject({ code: 'RESULT_NOT_FOUND' });
    await expect(store.remove(key)).rejects.toMatchObject({ code: 'RESULT_NOT_FOUND' });
  }
});

test('of many commits at once exactly one wins, and readers see that one', async () => {
  const commits = await Promise.all(
    Array.from({ length: 20 }, (_, n) => store.commit('job', transcriptOf('job', `${n}`))),
  );
  const winners = commits.flatMap(({ committed }, n) => (committed ? [`${n}`] : []));
  expect(winners).toHaveLength(1);
  expect(await store.read(store.keyOf('job'))).toMatchObject({ text: winners[0] });
});

test('of two processes that commit the same jobs at once, one wins each', async () => {
  await using program = await compileProgram('test/storage/committing-program.ts');
  const settings = JSON.stringify(server.settings(bucket));
  const writers = ['one', 'other'].map((text) => fork(program.path, [settings, text, '20']));
  await Promise.all(writers.map((writer) => once(writer, 'message')));
  const told = writers.map((writer) => once(writer, 'message'));
  for (const writer of writers) writer.send('go');
  const [one = [], other = []] = (await Promise.all(told)).map(([won]) => won);
  for (let n = 0; n < 20; n += 1) {
    expect([one[n], other[n]].toSorted()).toEqual([false, true]);
    const text = one[n] === true ? 'one' : 'other';
    expect(await store.read(store.keyOf(`job-${n}`))).toMatchObject({ text });
  }
});

test('what is damaged says so', async () => {
  const key = store.keyOf('job');
  const target = { Bucket: bucket, Key: `wave/pool/results/${key}`, Body: '{' };
  await server.client().send(new PutObjectCommand(target));
  await expect(store.read(key)).rejects.toMatchObject({ code: 'INTERNAL' });
});

test('a commit goes on when the store is back after an outage', async () => {
  const impatient = await openResults({ patienceMs: 1_000 });
  await server.cut();
  const commit = store.commit('job', transcriptOf('job', 'kept'));
  // The outage is as long as several attempts.
  await expect(impatient.read(store.keyOf('job'))).rejects.toMatchObject({
    code: 'STORAGE_UNAVAILABLE',
  });
  await server.restore();
  expect((await commit).committed).toBe(true);
  expect(await store.read(store.keyOf('job'))).toMatchObject({ text: 'kept' });
});

test('a store that answers nothing is given up after its time', async () => {
  const hasty = await openResults({ requestTimeoutMs: 300, patienceMs: 500 });
  server.pause();
  try {
    await expect(hasty.commit('job', transcriptOf('job', 'x'))).rejects.toMatchObject({
      code: 'STORAGE_UNAVAILABLE',
      retryable: true,
    });
  } finally {
    server.goOn();
  }
});

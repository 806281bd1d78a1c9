import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { readKnownModels } from '../../../src/queue/jobs/known-models.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { startManualWorker, startWorker } from '../../support/worker.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

test('jobs are listed by state, those that changed last first', async () => {
  let now = Date.now();
  const { address } = redis;
  await using queue = await AudioQueue.open({ address, model: 'listed', now: () => ++now });
  const add = (id: string, delayMs = 0) =>
    queue.add({ id, input: { kind: 'path', path: `/${id}.wav` }, attempts: 1, delayMs });
  for (const id of ['good', 'bad', 'unwanted']) await add(id);
  await queue.cancel('unwanted');
  {
    await using _ = startWorker(address, 'listed', ({ id }) => {
      if (id === 'bad') throw new WavepoolError('INPUT_UNDECODABLE', 'noise');
    });
    await queue.waitFor('good');
    await queue.waitFor('bad').catch(() => undefined);
  }
  for (const id of ['runs', 'waits-1', 'waits-2']) await add(id);
  await add('later', 3_600_000);
  await using worker = startManualWorker(address, 'listed');
  expect((await worker.take()).jobId).toBe('runs');

  const listed = async (...states: Parameters<typeof queue.list>[0]['states'] & object) =>
    (await queue.list({ states, limit: 10 })).map(({ id }) => id);
  expect(await listed('waiting')).toEqual(['waits-2', 'waits-1']);
  expect(await listed('delayed')).toEqual(['later']);
  expect(await listed('running')).toEqual(['runs']);
  expect(await listed('completed')).toEqual(['good']);
  expect(await listed('failed')).toEqual(['bad']);
  expect(await listed('cancelled')).toEqual(['unwanted']);
  expect(await listed('failed', 'cancelled')).toEqual(['bad', 'unwanted']);
  expect((await queue.list({ limit: 10 })).map(({ id }) => id).toSorted()).toEqual(
    ['good', 'bad', 'unwanted', 'runs', 'waits-1', 'waits-2', 'later'].toSorted(),
  );
  expect((await queue.list({ states: ['waiting'], limit: 1 })).map(({ id }) => id)).toEqual([
    'waits-2',
  ]);
});

test('jobs of one state are found behind many of another that is kept in the same place', async () => {
  const { address } = redis;
  await using queue = await AudioQueue.open({ address, model: 'crowded' });
  const add = (id: string) => queue.add({ id, input: { kind: 'path', path: '/a.wav' } });
  await add('bad');
  {
    await using _ = startWorker(address, 'crowded', () => {
      throw new WavepoolError('INPUT_EMPTY', 'a');
    });
    await queue.waitFor('bad').catch(() => undefined);
  }
  for (const id of ['a', 'b', 'c']) {
    await add(id);
    await queue.cancel(id);
  }
  const listed = await queue.list({ states: ['failed'], limit: 1 });
  expect(listed).toMatchObject([{ id: 'bad', state: 'failed' }]);
});

test('a model is known from its first job on', async () => {
  const { address } = redis;
  const connection = await redis.connection();
  await using one = await AudioQueue.open({ address, model: 'known-b' });
  await using many = await AudioQueue.open({ address, model: 'known-a' });
  expect(await readKnownModels(connection)).not.toContain('known-b');
  await one.add({ input: { kind: 'path', path: '/a.wav' } });
  await many.addMany([{ input: { kind: 'path', path: '/a.wav' } }]);
  const known = await readKnownModels(connection);
  expect(known).toEqual(known.toSorted());
  expect(known).toEqual(expect.arrayContaining(['known-a', 'known-b']));
});

import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { readOverview } from '../../../src/queue/fleet/overview.ts';
import { PresencePublisher } from '../../../src/queue/fleet/presence.ts';
import { presenceOf } from '../../support/presence.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { startWorker } from '../../support/worker.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

test('the overview shows queues with and without jobs or workers, and why jobs failed, but not those cancelled', async () => {
  const { address } = redis;
  const connection = await redis.connection();
  expect(await readOverview(connection, 5)).toEqual({ queues: [], workers: [], failures: [] });

  await using queue = await AudioQueue.open({ address, model: 'alone' });
  const input = (path: string) => ({ kind: 'path', path }) as const;
  await queue.addMany([
    { id: 'good', input: input('/good.wav') },
    { id: 'broken', input: input('/broken.wav') },
    { id: 'unwanted', input: input('/c.wav'), delayMs: 3_600_000 },
    { id: 'later', input: input('/d.wav'), delayMs: 3_600_000 },
  ]);
  await queue.cancel('unwanted');
  {
    await using _ = startWorker(address, 'alone', ({ id }) => {
      if (id === 'broken') throw new WavepoolError('INPUT_UNDECODABLE', 'noise');
    });
    await queue.waitFor('good');
    await queue.waitFor('broken').catch(() => undefined);
  }
  await queue.add({ id: 'waits', input: input('/e.wav') });
  const worker = presenceOf({ models: [{ id: 'served', slots: 1, batch: 1 }] });
  await using publisher = new PresencePublisher({ address, snapshot: () => worker });
  await publisher.start();

  const overview = await readOverview(connection, 5);
  expect(overview.queues).toEqual([
    {
      model: 'alone',
      counts: { waiting: 1, delayed: 1, running: 0, completed: 1, failed: 2 },
      workers: 0,
    },
    {
      model: 'served',
      counts: { waiting: 0, delayed: 0, running: 0, completed: 0, failed: 0 },
      workers: 1,
    },
  ]);
  expect(overview.queues[0]?.counts).toEqual(await queue.counts());
  expect(overview.workers).toEqual([worker]);
  expect(overview.failures).toEqual([
    {
      id: 'broken',
      model: 'alone',
      code: 'INPUT_UNDECODABLE',
      message: 'cannot decode the input: noise',
      retryable: false,
      failedAt: expect.any(Number),
      input: '/broken.wav',
    },
  ]);
  expect((await readOverview(connection, 0)).failures).toEqual([]);
});

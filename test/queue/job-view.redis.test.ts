import { Queue } from 'bullmq';
import { expect, test } from 'vitest';
import { WavepoolError } from '../../src/core/errors.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { viewOf } from '../../src/queue/job-view.ts';
import { QUEUE_PREFIX } from '../../src/queue/queue-names.ts';
import { startRedis } from '../support/redis.ts';
import { outcomeOf, startWorker } from '../support/worker.ts';

test('a job that ends between the reading of its data and of its state is seen as it ended', async () => {
  await using redis = await startRedis();
  await using queue = await AudioQueue.open({ address: redis.address, model: 'view' });
  const bull = new Queue(queue.name, {
    connection: await redis.connection(),
    prefix: QUEUE_PREFIX,
  });
  const input = { kind: 'path', path: '/audio/a.wav' } as const;
  await queue.addMany([
    { id: 'good', input },
    { id: 'bad', input },
  ]);
  const early = [await bull.getJob('good'), await bull.getJob('bad')];
  await using _ = startWorker(redis.address, 'view', ({ id }) => {
    if (id === 'bad') throw new WavepoolError('INPUT_UNDECODABLE', 'a.wav');
  });
  await queue.waitFor('good');
  await expect(queue.waitFor('bad')).rejects.toMatchObject({ code: 'INPUT_UNDECODABLE' });

  const views = await Promise.all(early.map((job) => job && viewOf(job, String(job.id), bull)));
  expect(views).toMatchObject([
    { state: 'completed', outcome: outcomeOf('result-of-good') },
    { state: 'failed', failure: { code: 'INPUT_UNDECODABLE' } },
  ]);
  await bull.close();
});

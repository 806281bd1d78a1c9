import { Queue } from 'bullmq';
import { expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { viewOf } from '../../../src/queue/jobs/job-view.ts';
import { queuePrefix } from '../../../src/queue/redis/queue-names.ts';
import { startRedis } from '../../support/redis.ts';
import { startWorker } from '../../support/worker.ts';

test('a job that ends between the reading of its data and of its state is shown with its end', async () => {
  await using redis = await startRedis();
  const { address } = redis;
  await using queue = await AudioQueue.open({ address, model: 'racing' });
  const connection = await redis.connection();
  const bull = new Queue('racing', { connection, prefix: queuePrefix(connection) });
  const input = { kind: 'path' as const, path: '/a.wav' };
  for (const id of ['good', 'bad']) await queue.add({ id, input, attempts: 1 });
  const early = await Promise.all(['good', 'bad'].map((id) => bull.getJob(id)));
  {
    await using _ = startWorker(address, 'racing', ({ id }) => {
      if (id === 'bad') throw new WavepoolError('INPUT_UNDECODABLE', 'noise');
    });
    await queue.waitFor('good');
    await expect(queue.waitFor('bad')).rejects.toThrow();
  }
  const views = await Promise.all(
    early.map(async (job) => job && viewOf(job, String(job.id), () => bull.getJob(String(job.id)))),
  );
  expect(views).toMatchObject([
    { state: 'completed', outcome: { resultKey: 'result-of-good' } },
    { state: 'failed', failure: { code: 'INPUT_UNDECODABLE' } },
  ]);
  await bull.close();
});

import { Worker } from 'bullmq';
import { expect, test } from 'vitest';
import { createLogger } from '../../../src/core/logger.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { queuePrefix } from '../../../src/queue/redis/queue-names.ts';
import { LostReplies } from '../../../src/worker/job/lost-replies.ts';
import { jobNamed } from '../../support/jobs.ts';
import { startRedis } from '../../support/redis.ts';

test('a job that the worker has taken without knowing waits again; its others, and those of other workers, do not', {
  timeout: 30_000,
}, async () => {
  await using redis = await startRedis();
  const connection = await redis.connection();
  await using queue = await AudioQueue.open({ address: redis.address, model: 'lost' });
  await queue.addMany(['lost', 'known', 'foreign'].map((id) => jobNamed(id)));
  const worker = new Worker(queue.name, null, { connection, prefix: queuePrefix(connection) });
  for (const token of [`${worker.id}:1`, `${worker.id}:2`, 'another:1']) {
    await worker.getNextJob(token, { block: false });
  }
  const replies = new LostReplies({
    connection,
    worker,
    isKnown: (jobId, token) => jobId === 'known' && token === `${worker.id}:2`,
    logger: createLogger('silent', 'test'),
    secondLookMs: 1,
  });
  await Promise.all([replies.look(), replies.look()]);
  await replies.look();
  await replies.close();
  await worker.close();
  const states = await queue.getMany(['lost', 'known', 'foreign']);
  expect([...states.values()].map(({ id, state }) => [id, state])).toEqual([
    ['lost', 'waiting'],
    ['known', 'running'],
    ['foreign', 'running'],
  ]);
});

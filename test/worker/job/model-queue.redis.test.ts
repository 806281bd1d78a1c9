import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JobProgress } from '../../../src/core/job/job.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { startModelQueue } from '../../support/model-queue.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

const clip = (id: string) => ({ id, input: { kind: 'path', path: `/audio/${id}.wav` } }) as const;

function progressAt(processedSeconds: number): JobProgress {
  return { phase: 'running', processedSeconds, totalSeconds: 9, segmentsDone: 1 };
}

test('a job that ends at once has told its progress, in order, before its end', async () => {
  const model = `m-${randomUUID()}`;
  await using queue = await AudioQueue.open({ address: redis.address, model });
  const story: string[] = [];
  queue.on('progress', ({ id, progress }) => story.push(`${id} ${progress.processedSeconds}`));
  queue.on('completed', ({ id }) => story.push(`${id} completed`));
  queue.on('failed', ({ id }) => story.push(`${id} failed`));
  await using _worker = await startModelQueue(
    redis.address,
    model,
    5,
    ({ jobId, onProgress, data }) => {
      onProgress(progressAt(1));
      onProgress(progressAt(2));
      return data.priority === 7 ? Promise.reject(new Error(jobId)) : Promise.resolve();
    },
  );
  await queue.addMany([...['a', 'b', 'c'].map(clip), { ...clip('d'), priority: 7, attempts: 1 }]);
  await Promise.allSettled(['a', 'b', 'c', 'd'].map((id) => queue.waitFor(id)));
  for (const [id, end] of Object.entries({ a: 'completed', b: 'completed', d: 'failed' })) {
    const own = story.filter((event) => event.startsWith(id));
    expect(own).toEqual([`${id} 1`, `${id} 2`, `${id} ${end}`]);
  }
  expect((await queue.get('a'))?.progress).toEqual(progressAt(2));
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import type { JobEvent } from '../../../src/queue/events/job-event-iterator.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { outcomeOf, startWorker } from '../../support/worker.ts';

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

const INPUT = { kind: 'path', path: '/audio/a.wav' } as const;
const PROGRESS = {
  phase: 'running',
  processedSeconds: 1,
  totalSeconds: 2,
  segmentsDone: 1,
} as const;

async function storyOf(events: AsyncIterable<JobEvent>): Promise<JobEvent[]> {
  const story: JobEvent[] = [];
  for await (const event of events) story.push(event);
  return story;
}

test('a job is followed to its end, which is told again to whoever comes later', async () => {
  await using queue = await AudioQueue.open({ address: redis.address, model: 'follow' });
  const about = { model: 'follow', jobId: 'a' };
  await queue.add({ id: 'a', input: INPUT });
  await queue.add({ id: 'other', input: INPUT });
  const following = storyOf(queue.events('a'));
  await using _ = startWorker(redis.address, 'follow', (job) => job.updateProgress(PROGRESS));
  const story = await following;
  const last = { type: 'job.completed', ...about, outcome: outcomeOf('result-of-a') };
  expect(story.at(-1)).toEqual(last);
  expect(story.every(({ jobId }) => jobId === 'a')).toBe(true);
  expect(await storyOf(queue.events('a'))).toEqual([last]);
  expect(await storyOf(queue.events('unknown'))).toEqual([
    { type: 'job.removed', model: 'follow', jobId: 'unknown' },
  ]);
});

test('what happens before the end comes in its order, and of progress the latest', async () => {
  await using queue = await AudioQueue.open({ address: redis.address, model: 'order' });
  await queue.add({ id: 'a', input: INPUT });
  let goOn: () => void = () => undefined;
  const seen = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  await using _ = startWorker(redis.address, 'order', async (job) => {
    await job.updateProgress(PROGRESS);
    await seen;
    throw new WavepoolError('INPUT_UNDECODABLE', 'a.wav');
  });
  const told: string[] = [];
  for await (const event of queue.events('a')) {
    told.push(event.type);
    if (event.type === 'job.progress') {
      expect(event.progress).toEqual(PROGRESS);
      goOn();
    }
    if (event.type === 'job.failed') {
      expect(event.failure).toMatchObject({
        code: 'INPUT_UNDECODABLE',
        type: 'invalid_request_error',
        retryable: false,
      });
    }
  }
  expect(told.slice(-2)).toEqual(['job.progress', 'job.failed']);
});

test('a caller who aborts gets the reason, and one who leaves just leaves', async () => {
  await using queue = await AudioQueue.open({ address: redis.address, model: 'leave' });
  await queue.add({ id: 'a', input: INPUT });
  const enough = new AbortController();
  const following = storyOf(queue.events('a', { signal: enough.signal }));
  enough.abort(new Error('enough'));
  await expect(following).rejects.toThrow('enough');
  await using _ = startWorker(redis.address, 'leave', () => undefined);
  for await (const { jobId } of queue.events('a')) {
    expect(jobId).toBe('a');
    break;
  }
});

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { JobProgress } from '../../../src/core/job/job.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { ProgressTeller } from '../../../src/queue/jobs/progress-teller.ts';
import { bullKey } from '../../../src/queue/redis/queue-names.ts';
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

test('the progress of many jobs goes out as one command, is kept with each job and told in order', async () => {
  const model = `m-${randomUUID()}`;
  await using queue = await AudioQueue.open({ address: redis.address, model });
  await queue.addMany([clip('a'), clip('b')]);
  const connection = await redis.connection();
  const onError = vi.fn();
  const teller = new ProgressTeller(connection, model, onError);
  await teller.prepare();
  const commands = vi.spyOn(connection, 'sendCommand');
  teller.tell('a', progressAt(1));
  teller.tell('b', progressAt(2));
  teller.tell('gone', progressAt(3));
  teller.tell('a', progressAt(4));
  await teller.sent();
  expect(commands).toHaveBeenCalledOnce();
  const events = await connection.xrange(bullKey(connection, model, 'events'), '-', '+');
  const told = events.map(([, fields]) => fields).filter((fields) => fields.includes('progress'));
  expect(told.map((fields) => [fields[3], JSON.parse(fields[5] ?? '')])).toEqual([
    ['a', progressAt(1)],
    ['b', progressAt(2)],
    ['a', progressAt(4)],
  ]);
  const kept = (id: string) => connection.hget(bullKey(connection, model, id), 'progress');
  expect(JSON.parse((await kept('a')) ?? '')).toEqual(progressAt(4));
  expect(JSON.parse((await kept('b')) ?? '')).toEqual(progressAt(2));
  expect(await connection.exists(bullKey(connection, model, 'gone'))).toBe(0);
  expect(onError).not.toHaveBeenCalled();
});

test('a job that ends at once has told its progress before its end, the first one of a server, too', async () => {
  const model = `m-${randomUUID()}`;
  await using queue = await AudioQueue.open({ address: redis.address, model });
  const story: string[] = [];
  queue.on('progress', ({ id }) => story.push(`${id} runs`));
  queue.on('completed', ({ id }) => story.push(`${id} ended`));
  const connection = await redis.connection();
  await connection.script('FLUSH');
  await using _worker = await startModelQueue(redis.address, model, 5, ({ onProgress }) => {
    onProgress(progressAt(1));
    return Promise.resolve();
  });
  const ids = ['a', 'b', 'c', 'd'];
  await queue.addMany(ids.map(clip));
  await Promise.all(ids.map((id) => queue.waitFor(id)));
  for (const id of ids) {
    expect(story.filter((event) => event.startsWith(id))).toEqual([`${id} runs`, `${id} ended`]);
  }
});

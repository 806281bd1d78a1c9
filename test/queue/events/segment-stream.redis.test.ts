import { afterAll, beforeAll, expect, test } from 'vitest';
import type { PartialSegment } from '../../../src/core/job/job.ts';
import { readSegments, SegmentWriter } from '../../../src/queue/events/segment-stream.ts';
import { segmentStreamKey } from '../../../src/queue/redis/queue-names.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

const QUEUE = 'model';

function segment(index: number): PartialSegment {
  return { index, start: index, end: index + 1, text: `text ${index}` };
}

test('a reader gets the segments of its jobs in the order in which they were told, and goes on where it stopped', async () => {
  const connection = await redis.connection();
  const [a, b] = ['a', 'b'].map((id) => new SegmentWriter(connection, QUEUE, id));
  a?.append(segment(1));
  a?.append(segment(0));
  b?.append(segment(0));
  await Promise.all([a?.flushed(), b?.flushed()]);
  const read = await readSegments(connection, [
    { queue: QUEUE, jobId: 'a' },
    { queue: QUEUE, jobId: 'b' },
    { queue: QUEUE, jobId: 'nobody' },
  ]);
  expect(read.map(({ jobId, segment: { index } }) => [jobId, index])).toEqual([
    ['a', 1],
    ['a', 0],
    ['b', 0],
  ]);
  expect(read[0]?.segment).toEqual(segment(1));

  a?.append(segment(2));
  await a?.flushed();
  const more = await readSegments(connection, [
    { queue: QUEUE, jobId: 'a', after: read[1]?.id },
    { queue: QUEUE, jobId: 'b', after: read[2]?.id },
  ]);
  expect(more).toMatchObject([{ jobId: 'a', segment: segment(2) }]);
});

test('a reader that waits is woken by the next segment', async () => {
  const connection = await redis.connection();
  const reader = await redis.connection();
  const waiting = readSegments(reader, [{ queue: QUEUE, jobId: 'later' }], { blockMs: 60_000 });
  new SegmentWriter(connection, QUEUE, 'later').append(segment(0));
  expect(await waiting).toMatchObject([{ jobId: 'later', segment: segment(0) }]);
});

test('the stream of a job is capped and does not stay for ever', async () => {
  const connection = await redis.connection();
  const writer = new SegmentWriter(connection, QUEUE, 'long');
  for (let index = 0; index < 6_000; index += 1) writer.append(segment(index));
  await writer.flushed();
  const key = segmentStreamKey(connection, QUEUE, 'long');
  expect(await connection.xlen(key)).toBeLessThan(5_000);
  expect(await connection.ttl(key)).toBeGreaterThan(0);
});

test('nothing to read is no error', async () => {
  const connection = await redis.connection();
  expect(await readSegments(connection, [])).toEqual([]);
  expect(await readSegments(connection, [{ queue: QUEUE, jobId: 'nobody' }])).toEqual([]);
});

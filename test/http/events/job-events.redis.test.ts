import { afterAll, beforeAll, expect, test } from 'vitest';
import { ServiceEvent } from '../../../src/core/http/events.ts';
import type { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { SegmentWriter } from '../../../src/queue/events/segment-stream.ts';
import { bullKey } from '../../../src/queue/redis/queue-names.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { readSse, type SseEvent, type SseReader } from '../../support/sse.ts';
import { outcomeOf, startManualWorker, startWorker } from '../../support/worker.ts';

const INPUT = { kind: 'path', path: '/audio/a.wav' } as const;

let server: TestServer;
let queue: AudioQueue;
beforeAll(async () => {
  server = await startTestServer();
  queue = await server.services.queues.queueOf(TEST_MODEL);
});
afterAll(() => server[Symbol.asyncDispose]());

function follow(id: string, lastEventId?: string): Promise<SseReader> {
  return readSse(`${server.url}/v1/jobs/${id}/events`, lastEventId);
}

const types = (events: readonly SseEvent[]): string[] => events.map(({ type }) => type);

function segment(index: number) {
  return { index, start: index, end: index + 1, text: `text ${index}` };
}

test('the stream of a job begins with a snapshot, tells its segments, and ends with the job', async () => {
  const connection = await server.redis.connection();
  const id = await queue.add({ input: INPUT, partials: true });
  using reader = await follow(id);
  expect(await reader.next()).toMatchObject({
    type: 'job.snapshot',
    data: { job: { id, state: 'waiting' } },
  });
  await using _ = startWorker(server.redis.address, TEST_MODEL, async (job) => {
    const writer = new SegmentWriter(connection, TEST_MODEL, String(job.id));
    for (let index = 0; index < 3; index += 1) writer.append(segment(index));
    await writer.flushed();
  });
  const events = await reader.rest();
  expect(types(events)).toEqual([
    'job.running',
    ...['job.segment', 'job.segment', 'job.segment'],
    'job.completed',
  ]);
  for (const { data } of events) ServiceEvent.parse(data);
  expect(events.filter(({ type }) => type === 'job.segment').map(({ data }) => data)).toMatchObject(
    [0, 1, 2].map((index) => ({ jobId: id, segment: segment(index) })),
  );
  expect(JSON.stringify(events)).not.toContain('resultKey');
});

test('a reader of a job that comes back misses no segment and gets none twice', async () => {
  const connection = await server.redis.connection();
  await using worker = startManualWorker(server.redis.address, TEST_MODEL);
  const id = await queue.add({ input: INPUT, partials: true });
  const { job, token } = await worker.take();
  const writer = new SegmentWriter(connection, TEST_MODEL, id);
  const first = await follow(id);
  for (let index = 0; index < 4; index += 1) writer.append(segment(index));
  const seen = await first.until(
    ({ data }) => ServiceEvent.parse(data).type === 'job.segment' && isSegment(data, 1),
  );
  first.close();
  for (let index = 4; index < 6; index += 1) writer.append(segment(index));
  using second = await follow(id, first.lastId);
  await writer.flushed();
  await job.moveToCompleted(outcomeOf('key'), token, false);
  const rest = await second.rest();
  const indices = [...seen, ...rest].flatMap(({ data }) => indexOf(data));
  expect(indices).toEqual([0, 1, 2, 3, 4, 5]);
  expect(types(rest)).not.toContain('job.snapshot');
  expect(types(rest).at(-1)).toBe('job.completed');
});

function indexOf(data: Record<string, unknown>): number[] {
  const event = ServiceEvent.parse(data);
  return event.type === 'job.segment' && 'segment' in event ? [event.segment.index] : [];
}

function isSegment(data: Record<string, unknown>, index: number): boolean {
  return indexOf(data)[0] === index;
}

test('a job that has ended is told in short, and whoever knows its end gets nothing more', async () => {
  const id = await queue.add({ input: INPUT });
  await queue.cancel(id);
  using first = await follow(id);
  const events = await first.rest();
  expect(types(events)).toEqual(['job.snapshot', 'job.failed']);
  expect(events.at(-1)?.data).toMatchObject({ failure: { code: 'CANCELLED', type: 'cancelled' } });
  using again = await follow(id, first.lastId);
  expect(again.response.status).toBe(204);
});

test('a reader who knows an end is told of what a retry makes of the job', async () => {
  const id = await queue.add({ input: INPUT });
  await queue.cancel(id);
  using first = await follow(id);
  await first.rest();
  await queue.retry(id);
  using second = await follow(id, first.lastId);
  await using _ = startWorker(server.redis.address, TEST_MODEL, () => undefined);
  expect(types(await second.rest())).toEqual(['job.waiting', 'job.running', 'job.completed']);
});

test('an end before a retry does not end the stream of a reader who was away', async () => {
  const id = await queue.add({ input: INPUT });
  const first = await follow(id);
  await first.next();
  first.close();
  await queue.cancel(id);
  await queue.retry(id);
  using second = await follow(id, first.lastId);
  const told = await second.until(({ type }) => type === 'job.waiting');
  expect(types(told)).toContain('job.failed');
  await queue.cancel(id);
  expect(types(await second.rest())).toEqual(expect.arrayContaining(['job.failed']));
});

test('a reader that was away for longer than events are kept gets the state of the job', async () => {
  const id = await queue.add({ input: INPUT });
  const first = await follow(id);
  await first.next();
  first.close();
  const connection = await server.redis.connection();
  await queue.cancel(id);
  await connection.xtrim(bullKey(connection, TEST_MODEL, 'events'), 'MAXLEN', 0);
  using second = await follow(id, first.lastId);
  expect(await second.rest()).toMatchObject([
    { type: 'job.snapshot', data: { job: { state: 'cancelled' } } },
    { type: 'job.failed' },
  ]);
});

test('a removed job ends its stream, and is not found after that', async () => {
  const id = await queue.add({ input: INPUT });
  using reader = await follow(id);
  await reader.next();
  await queue.remove(id);
  expect(types(await reader.rest())).toEqual(['job.removed']);
  expect((await server.request(`/v1/jobs/${id}/events`)).status).toBe(404);
});

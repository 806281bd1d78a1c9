import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ServiceEvent } from '../../../src/core/http/events.ts';
import type { HttpSettings } from '../../../src/http/settings.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { publishEvent } from '../../../src/queue/events/service-events.ts';
import { bullKey } from '../../../src/queue/redis/queue-names.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { readSse, type SseEvent, type SseReader } from '../../support/sse.ts';

const MODELS = [TEST_MODEL, 'second-model'];
const INPUT = { kind: 'path', path: '/audio/a.wav' } as const;
/** Many readers or events: longer than the usual limit on a busy machine. */
const LONG = 30_000;

let server: TestServer;
/** Heartbeats and the like, when a test says so. */
const tasks = new Set<{ ms: number; task: () => void }>();
beforeAll(async () => {
  server = await startTestServer({
    models: MODELS,
    every: (ms, task) => {
      const entry = { ms, task };
      tasks.add(entry);
      return () => tasks.delete(entry);
    },
  });
});
afterAll(() => server[Symbol.asyncDispose]());

function pass(ms: number): void {
  for (const entry of [...tasks]) if (entry.ms === ms) entry.task();
}

function queueOf(model: string): Promise<AudioQueue> {
  return server.services.queues.queueOf(model);
}

async function tell(model: string, type: 'slot.note' | 'model.note', data: object): Promise<void> {
  const { connection } = server.services.queues;
  await publishEvent(connection, { type, model, data: { ...data } });
}

function follow(query = '', lastEventId?: string): Promise<SseReader> {
  return readSse(`${server.url}/v1/events${query}`, lastEventId);
}

const isNote = (number: number) => (event: SseEvent) => numberOf(event) === number;

function numberOf({ data }: SseEvent): unknown {
  const { data: note } = data;
  return typeof note === 'object' && note !== null && 'number' in note ? note.number : undefined;
}

test('a reader is told what happens to jobs, typed as declared', async () => {
  using reader = await follow('?types=job.*');
  const queue = await queueOf(TEST_MODEL);
  const id = await queue.add({ input: INPUT });
  await queue.cancel(id);
  const events = await reader.until(({ type }) => type === 'job.failed');
  const parsed = events.map(({ data }) => ServiceEvent.parse(data));
  expect(parsed[0]).toMatchObject({ type: 'job.waiting', jobId: id, model: TEST_MODEL });
  expect(parsed.at(-1)).toMatchObject({ jobId: id, failure: { code: 'CANCELLED' } });
  expect(reader.response.headers.get('content-type')).toContain('text/event-stream');
});

test('a reader of many queues that comes back gets each event exactly once', async () => {
  const first = await follow();
  for (let number = 0; number < 40; number += 1) {
    await tell(MODELS[number % 2] ?? '', 'model.note', { number });
  }
  const seen = await first.until(isNote(17));
  first.close();
  for (let number = 40; number < 60; number += 1) {
    await tell(MODELS[number % 2] ?? '', 'model.note', { number });
  }
  using second = await follow('', first.lastId);
  while (![58, 59].every((number) => seen.some(isNote(number)))) {
    seen.push(...(await second.until(() => true)));
  }
  const numbers = seen.map(numberOf).map(Number);
  expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, i) => i));
  // Each queue's in its order.
  for (const rest of [0, 1]) {
    const own = numbers.filter((number) => number % 2 === rest);
    expect(own).toEqual(own.toSorted((a, b) => a - b));
  }
});

test('a reader that was away for more than memory holds gets the rest from Redis', async () => {
  const first = await follow('?types=slot.note');
  await tell(TEST_MODEL, 'slot.note', { number: 0 });
  await first.until(isNote(0));
  first.close();
  const connection = await server.redis.connection();
  const pipeline = connection.pipeline();
  for (let number = 1; number <= 6_000; number += 1) {
    pipeline.xadd(
      ...([bullKey(connection, TEST_MODEL, 'events'), '*', 'event', 'slot.note'] as const),
      ...['data', JSON.stringify({ number })],
    );
  }
  using live = await follow('?types=slot.note');
  await pipeline.exec();
  await live.until(isNote(6_000));
  using second = await follow('?types=slot.note', first.lastId);
  const events = await second.until(isNote(6_000));
  expect(events.map(numberOf)).toEqual(Array.from({ length: 6_000 }, (_, i) => i + 1));
  // And is with the others from there.
  await tell(TEST_MODEL, 'slot.note', { number: 6_001 });
  expect(numberOf((await second.next()) ?? (live.comments.at(0) as never))).toBe(6_001);
});

test('a reader that was away for longer than events are kept is told so', async () => {
  const first = await follow('?model=second-model');
  await tell('second-model', 'model.note', { number: 0 });
  await first.until(isNote(0));
  first.close();
  const connection = await server.redis.connection();
  await tell('second-model', 'model.note', { number: 1 });
  await connection.xtrim(bullKey(connection, 'second-model', 'events'), 'MAXLEN', 0);
  using live = await follow();
  for (const model of MODELS) await tell(model, 'model.note', { number: 2 });
  await live.until(isNote(2));
  await live.until(isNote(2));
  // Memory of another server does not have them.
  await using other = await startOther();
  using second = await readSse(`${other.url}/v1/events`, first.lastId);
  const [reset] = await second.until(({ type }) => type === 'stream.reset');
  expect(reset?.data).toEqual({ type: 'stream.reset', models: ['second-model'] });
});

/** A second server on the same Redis. */
function startOther(settings: Partial<HttpSettings> = {}): Promise<TestServer> {
  return startTestServer({ models: MODELS, redis: server.redis, settings });
}

test('an id that is none resets the reader', async () => {
  using reader = await follow('', 'what?');
  expect(await reader.next()).toMatchObject({
    type: 'stream.reset',
    data: { models: MODELS.toSorted() },
  });
});

test('the queue of a new model is found with everything that it told', async () => {
  using reader = await follow('?types=job.*');
  const connection = await server.redis.connection();
  await using queue = await AudioQueue.open({ address: server.redis.address, model: 'new-model' });
  const id = await queue.add({ input: INPUT });
  expect(await connection.exists(bullKey(connection, 'new-model', id))).toBe(1);
  pass(5_000);
  expect(await reader.next()).toMatchObject({
    type: 'job.waiting',
    data: { jobId: id, model: 'new-model' },
  });
});

test('filters by model, type and tenant let through what they say', async () => {
  using byModel = await follow('?model=second-model&types=job.waiting');
  using byTenant = await follow('?tenant=acme&types=job.waiting,slot.*');
  const [first, second] = [await queueOf(TEST_MODEL), await queueOf('second-model')];
  await first.add({ input: INPUT, tenant: 'other' });
  const ours = await first.add({ input: INPUT, tenant: 'acme' });
  await tell(TEST_MODEL, 'slot.note', { number: 1, tenant: 'acme' });
  const theirs = await second.add({ input: INPUT, tenant: 'other' });
  const last = await second.add({ input: INPUT, tenant: 'acme' });
  expect(await byModel.next()).toMatchObject({ data: { jobId: theirs } });
  expect(await byModel.next()).toMatchObject({ data: { jobId: last } });
  const told = await byTenant.until(({ data: { jobId } }) => jobId === last);
  expect(told.filter(({ type }) => type === 'slot.note')).toHaveLength(1);
  expect(told.flatMap(({ data: { jobId } }) => jobId ?? [])).toEqual([ours, last]);
  const wrong = await server.request('/v1/events?types=nonsense');
  expect(wrong.status).toBe(400);
});

test('heartbeats come when nothing happens, and move the reader on', async () => {
  using reader = await follow('?types=job.completed');
  await heartbeat(reader);
  const before = reader.lastId;
  using other = await follow('?types=slot.note');
  await tell(TEST_MODEL, 'slot.note', { number: 7 });
  await other.until(isNote(7));
  await heartbeat(reader);
  expect(reader.comments.at(-1)).toBe('heartbeat');
  expect(reader.lastId).not.toBe(before);
});

async function heartbeat(reader: SseReader): Promise<void> {
  pass(15_000);
  await reader.comment();
}

test(
  '200 readers see every event exactly once',
  async () => {
    const readers = await Promise.all(
      Array.from({ length: 200 }, () => follow('?types=slot.note')),
    );
    for (let number = 0; number < 50; number += 1) {
      await tell(MODELS[number % 2] ?? '', 'slot.note', { number });
    }
    await tell(MODELS[0] ?? '', 'slot.note', { number: 'a' });
    await tell(MODELS[1] ?? '', 'slot.note', { number: 'b' });
    const ends = (events: readonly SseEvent[]): boolean =>
      ['a', 'b'].every((end) => events.some((event) => numberOf(event) === end));
    const all = await Promise.all(
      readers.map(async (reader) => {
        const events: SseEvent[] = [];
        while (!ends(events)) events.push(...(await reader.until(() => true)));
        reader.close();
        return events.map(numberOf).filter((number) => typeof number === 'number');
      }),
    );
    const every = Array.from({ length: 50 }, (_, number) => number);
    for (const numbers of all) expect(numbers.toSorted((a, b) => a - b)).toEqual(every);
  },
  LONG,
);

test(
  'a client that does not read is cut off, and goes on where it was',
  async () => {
    await using other = await startOther({ maxEventBytes: 65_536 });
    const { port } = new URL(other.url);
    const slow = connect(Number(port), '127.0.0.1');
    await once(slow, 'connect');
    slow.write('GET /v1/events?types=slot.note HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const head = await once(slow, 'data');
    slow.pause();
    using live = await readSse(`${other.url}/v1/events?types=slot.note`);
    expect(other.services.events.subscribers).toBe(2);
    const text = 'x'.repeat(50_000);
    const count = 400;
    for (let number = 0; number < count; number += 1) {
      await tell(TEST_MODEL, 'slot.note', { number, text });
      await live.until(isNote(number));
    }
    expect(other.services.events.subscribers).toBe(1);
    let received = String(head[0]);
    slow.setEncoding('utf8');
    slow.on('data', (chunk) => {
      received += chunk;
    });
    slow.on('error', () => undefined);
    slow.resume();
    await once(slow, 'close');
    const ids = [
      ...received.matchAll(/^id: (\S+)\nevent: slot.note\ndata: .*"number":(\d+).*\n\n/gm),
    ];
    const [, lastId, lastNumber] = ids.at(-1) ?? [];
    expect(Number(lastNumber)).toBeLessThan(count - 1);
    using back = await follow('?types=slot.note', lastId);
    const rest = await back.until(isNote(count - 1));
    expect(rest.map(numberOf).at(0)).toBe(Number(lastNumber) + 1);
    expect(rest).toHaveLength(count - 1 - Number(lastNumber));
  },
  LONG,
);

test('HEAD tells of a stream without beginning one', async () => {
  const response = await server.request('/v1/events', { method: 'HEAD' });
  expect(response.headers.get('content-type')).toContain('text/event-stream');
  expect(await response.text()).toBe('');
});

test('streams end when the server does', async () => {
  await using other = await startOther();
  using reader = await readSse(`${other.url}/v1/events`);
  const rest = reader.rest();
  await other.close();
  expect(await rest).toEqual([]);
});

import { EventEmitter, once } from 'node:events';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isPositionKept, readEventPage } from '../../../src/queue/events/event-history.ts';
import { EventStream } from '../../../src/queue/events/event-stream.ts';
import { bullKey } from '../../../src/queue/redis/queue-names.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';

let redis: TestRedis;
let connection: Redis;
beforeAll(async () => {
  redis = await startRedis();
  connection = await redis.connection();
});
afterAll(() => redis[Symbol.asyncDispose]());

const add = (queue: string, name: string) =>
  ['xadd', bullKey(connection, queue, 'events'), '*', 'event', name] as string[];

/** What a stream tells, in order; `told` has an event for each. */
async function openStream(queue: string) {
  const log: string[] = [];
  const told = new EventEmitter();
  const note = (line: string): void => {
    log.push(line);
    told.emit(line);
  };
  const stream = await EventStream.open({
    address: redis.address,
    queue,
    onEvents: (events) => {
      for (const { name } of events) note(name);
    },
    onGap: () => note('gap'),
    onError: () => undefined,
  });
  return { log, told, stream, [Symbol.dispose]: () => stream.close() };
}

async function killReaders(): Promise<string[][]> {
  const list = String(await connection.client('LIST'));
  const ids = [...list.matchAll(/id=(\d+) .*?name=wavepool:events:/g)].map(([, id = '']) => id);
  return ids.map((id) => ['client', 'KILL', 'ID', id]);
}

test('a reader whose connection breaks misses nothing that is kept', async () => {
  using reader = await openStream('short');
  const first = once(reader.told, 'first');
  await connection.multi([add('short', 'first')]).exec();
  await first;
  const last = once(reader.told, 'last');
  await connection
    .multi([...(await killReaders()), add('short', 'meanwhile'), add('short', 'last')])
    .exec();
  await last;
  expect(reader.log).toEqual(['first', 'meanwhile', 'last']);
});

test('a reader that was away for longer than events are kept says so before it goes on', async () => {
  using reader = await openStream('long');
  const first = once(reader.told, 'first');
  await connection.multi([add('long', 'first')]).exec();
  await first;
  const last = once(reader.told, 'last');
  const trim = ['xtrim', bullKey(connection, 'long', 'events'), 'MAXLEN', '1'];
  await connection
    .multi([...(await killReaders()), add('long', 'lost'), add('long', 'last'), trim])
    .exec();
  await last;
  expect(reader.log).toEqual(['first', 'gap', 'last']);
});

test('a page of the past knows whether something before it is missing', async () => {
  const key = bullKey(connection, 'past', 'events');
  const ids: string[] = [];
  for (const name of ['a', 'b', 'c']) {
    ids.push(String(await connection.xadd(key, '*', 'event', name)));
  }
  const [a = '', , c = ''] = ids;
  const names = async (after: string) =>
    (await readEventPage(connection, 'past', { after, upTo: c, count: 10 })).events.map(
      ({ name }) => name,
    );
  expect(await names('0-0')).toEqual(['a', 'b', 'c']);
  expect(await names(a)).toEqual(['b', 'c']);
  expect(await isPositionKept(connection, 'past', a)).toBe(true);
  await connection.xtrim(key, 'MAXLEN', 1);
  expect(await isPositionKept(connection, 'past', a)).toBe(false);
  expect(await isPositionKept(connection, 'past', c)).toBe(true);
  expect(await isPositionKept(connection, 'past', '9999999999999-0')).toBe(false);
});

import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { closeConnection, connect, openConnection } from '../../../src/queue/redis/connection.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

async function connected() {
  const connection = openConnection(redis.address, { role: 'patient', name: 'test' });
  await connect(connection, redis.address);
  return {
    connection,
    /** Calls of the system that write to its socket. */
    writes: () => {
      const one = vi.spyOn(connection.stream, '_write');
      const many = vi.spyOn(connection.stream, '_writev' as '_write');
      return () => one.mock.calls.length + many.mock.calls.length;
    },
    [Symbol.dispose]: () => closeConnection(connection),
  };
}

test('the commands of one turn leave in one write and are answered in their order', async () => {
  using it = await connected();
  const written = it.writes();
  const replies = [1, 2, 3].map((value) => it.connection.rpush('list', value));
  expect(written()).toBe(0);
  expect(await Promise.all(replies)).toEqual([1, 2, 3]);
  expect(written()).toBe(1);
  const several = await it.connection.multi().lpop('list').lpop('list').exec();
  expect(several?.map(([, reply]) => reply)).toEqual(['1', '2']);
  expect(written()).toBe(2);
});

test('what was said before the connection is ended is said', async () => {
  using other = await connected();
  {
    using it = await connected();
    it.connection.set('last', 'word').catch(() => undefined);
  }
  await vi.waitFor(async () => expect(await other.connection.get('last')).toBe('word'));
});

test('a connection that was lost in the middle of a turn goes on with the next', async () => {
  using it = await connected();
  const reply = it.connection.incr('count');
  it.connection.stream.destroy();
  expect(await reply).toBe(1);
  expect(await it.connection.incr('count')).toBe(2);
});

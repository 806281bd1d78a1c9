import { afterEach, beforeEach, expect, test } from 'vitest';
import type { WorkerPresence } from '../../../src/core/worker/status.ts';
import { PresencePublisher, readPresence } from '../../../src/queue/fleet/presence.ts';
import { closeConnection, openConnection } from '../../../src/queue/redis/connection.ts';
import { EmbeddedRedis } from '../../../src/queue/redis/embedded-redis.ts';
import { workerKey, workersKey } from '../../../src/queue/redis/queue-names.ts';
import { presenceOf } from '../../support/presence.ts';
import { redisOptions, startRedis, type TestRedis, temporaryFolder } from '../../support/redis.ts';

/** Heartbeats of these tests are beaten by hand. */
const NEVER_MS = 3_600_000;

let redis: TestRedis;

beforeEach(async () => {
  redis = await startRedis();
});

afterEach(async () => {
  await redis[Symbol.asyncDispose]();
});

function publisherOf(snapshot: () => WorkerPresence, onError?: (error: unknown) => void) {
  return new PresencePublisher({
    address: redis.address,
    snapshot,
    heartbeatMs: NEVER_MS,
    onError,
  });
}

test('readers see every worker as it was at its last heartbeat, until it leaves', async () => {
  const connection = await redis.connection();
  let first = presenceOf({ startedAt: 1 });
  const second = presenceOf({ startedAt: 2 });
  await using a = publisherOf(() => first);
  await using b = publisherOf(() => second);
  await b.start();
  await a.start();
  expect(await readPresence(connection)).toEqual([first, second]);
  first = { ...first, heldJobs: 9 };
  await a.beat();
  expect(await readPresence(connection)).toEqual([first, second]);
  await a.close();
  expect(await readPresence(connection)).toEqual([second]);
  await b.close();
  expect(await connection.exists(workersKey(connection), workerKey(connection, second.id))).toBe(0);
});

test('a change that is announced while a heartbeat is under way is heard, too', async () => {
  const connection = await redis.connection();
  let presence = presenceOf({ heldJobs: 0 });
  await using publisher = publisherOf(() => presence);
  await publisher.start();
  for (const heldJobs of [1, 2, 3]) {
    presence = { ...presence, heldJobs };
    publisher.announce();
  }
  await expect.poll(() => readPresence(connection)).toEqual([presence]);
});

test('a worker whose word has run out is gone, and the next heartbeat of another forgets its id', async () => {
  const connection = await redis.connection();
  const dead = presenceOf();
  await connection.zadd(workersKey(connection), 1, dead.id);
  expect(await readPresence(connection)).toEqual([]);
  const alive = presenceOf();
  await using publisher = publisherOf(() => alive);
  await publisher.start();
  expect(await connection.zrange(workersKey(connection), '0', '-1')).toEqual([alive.id]);
});

test('the word of a worker runs out after three heartbeats', async () => {
  const connection = await redis.connection();
  const presence = presenceOf();
  await using publisher = publisherOf(() => presence);
  await publisher.start();
  const leftMs = await connection.pttl(workerKey(connection, presence.id));
  expect(leftMs).toBeGreaterThan(2 * NEVER_MS);
  expect(leftMs).toBeLessThanOrEqual(3 * NEVER_MS);
});

test('what another version has published is left out', async () => {
  const connection = await redis.connection();
  await connection.zadd(workersKey(connection), 1, 'strange');
  await connection.set(workerKey(connection, 'strange'), '{"kind":"worker of tomorrow"}');
  expect(await readPresence(connection)).toEqual([]);
});

test('while Redis is away heartbeats fail quietly, one error is told, and later ones are heard', async () => {
  await using folder = await temporaryFolder();
  const earlier = await EmbeddedRedis.acquire(redisOptions(folder.path));
  const { address } = earlier;
  await earlier.release();
  const errors: unknown[] = [];
  const presence = presenceOf();
  const onError = (error: unknown) => errors.push(error);
  const publisher = new PresencePublisher({ address, snapshot: () => presence, onError });
  await publisher.start();
  await publisher.beat();
  expect(errors).toMatchObject([{ code: 'REDIS_UNAVAILABLE' }]);
  await using server = await EmbeddedRedis.acquire(redisOptions(folder.path));
  expect(server.address).toEqual(address);
  const connection = openConnection(address, { role: 'patient', name: 'test' });
  let seen: WorkerPresence[] = [];
  while (seen.length === 0) {
    await publisher.beat();
    seen = await readPresence(connection);
  }
  expect(seen).toEqual([presence]);
  expect(errors).toHaveLength(1);
  await publisher.close();
  closeConnection(connection);
});

test('a publisher that never reached Redis closes', async () => {
  const publisher = new PresencePublisher({
    address: { kind: 'socket', path: '/nonexistent/redis.sock' },
    snapshot: presenceOf,
  });
  await publisher.start();
  await publisher.close();
});

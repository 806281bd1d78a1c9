/** Redis goes away, comes back, has no room, is slow, or is not what it should be. */
import { describe, expect, test } from 'vitest';
import { ProblemDetails } from '../../src/core/http/problem.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { startTestServer } from '../support/http.ts';
import { signalProcess } from '../support/process-table.ts';
import { temporaryFolder } from '../support/redis.ts';
import {
  canMount,
  lockLost,
  redisDiskFull,
  redisDiskFullEverysec,
  redisKilled,
  redisOutOfMemory,
  redisSlow,
  redisStopped,
} from './redis-scenarios.ts';
import { proveScenario } from './support/prove-scenario.ts';
import { RedisServer } from './support/redis-server.ts';
import { startProxy } from './support/socket-proxy.ts';

const MOUNTS = canMount();
if (!MOUNTS) {
  process.stderr.write('NOT TESTED: a full disk for Redis: this user may not mount a tmpfs\n');
}

describe.skipIf(!TEST_ADDON_BUILT).concurrent('Redis', { timeout: 300_000 }, () => {
  test('stands still for ten seconds: every job ends once, by itself', () =>
    proveScenario(redisStopped, { jobs: 20, times: 1 }));

  test('is killed and comes back with its log: every job ends once', () =>
    proveScenario(redisKilled, { jobs: 20, times: 2 }));

  test('has no memory left: adding says so, and everything goes on when there is some', () =>
    proveScenario(redisOutOfMemory, { jobs: 20, times: 1 }));

  test.skipIf(!MOUNTS)(
    'has no disk left and ends: adding says that it is away, the rest the same',
    () => proveScenario(redisDiskFull, { jobs: 20, times: 1 }),
  );

  test.skipIf(!MOUNTS)('has no disk left but stays: as without memory', () =>
    proveScenario(redisDiskFullEverysec, { jobs: 20, times: 1 }),
  );

  test('is far away: every job ends once', () => proveScenario(redisSlow, { jobs: 12, times: 1 }));

  test('lock lost by a worker that stands still: one result, and the late one ends quietly', () =>
    proveScenario(lockLost, { jobs: 6, times: 1 }));
});

test('the server says what is wrong with Redis, and is ready again when it is right', {
  timeout: 60_000,
}, async () => {
  await using server = await startTestServer();
  const connection = await server.redis.connection();
  const { serverPid } = server.redis.embedded;
  const readiness = async () => {
    const response = await server.request('/readyz');
    return response.ok ? 'ready' : ProblemDetails.parse(await response.json()).code;
  };
  const set = (name: string, value: string) => connection.config('SET', name, value);
  expect(await readiness()).toBe('ready');

  await set('maxmemory-policy', 'allkeys-lru');
  expect(await readiness()).toBe('REDIS_UNSUITABLE');
  await set('maxmemory-policy', 'noeviction');
  expect(await readiness()).toBe('ready');

  await set('maxmemory', '1');
  expect(await readiness()).toBe('REDIS_FULL');
  await set('maxmemory', '0');
  expect(await readiness()).toBe('ready');

  signalProcess(serverPid, 'SIGSTOP');
  expect(await readiness()).toBe('REDIS_UNAVAILABLE');
  signalProcess(serverPid, 'SIGCONT');
  await expect.poll(readiness, { timeout: 30_000 }).toBe('ready');
});

test('a Redis that is too old is refused, with what to do', async () => {
  await using folder = await temporaryFolder();
  await using redis = await RedisServer.start({ folder: folder.path });
  // Same length: an answer begins with it.
  const rewrite = (answer: Buffer) =>
    Buffer.from(answer.toString('latin1').replace(/(redis_version:)\d/, '$15'), 'latin1');
  await using proxy = await startProxy(folder.path, redis.socket, { rewrite });
  const { address } = proxy;
  await expect(AudioQueue.open({ address, model: 'any' })).rejects.toMatchObject({
    code: 'REDIS_UNSUITABLE',
    message: expect.stringMatching(/it is version 5\.[\d.]+; upgrade it to 6\.2 or newer/),
  });
});

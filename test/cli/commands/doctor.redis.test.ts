/** What the doctor says about a Redis of one's own. */
import { expect, test } from 'vitest';
import { startRedis } from '../../support/redis.ts';
import { runCli } from '../run-cli.ts';

test('the doctor says what a server promises about confirmed work', async () => {
  await using redis = await startRedis();
  if (redis.address.kind !== 'socket') throw new Error('a private server listens on a socket');
  const { path } = redis.address;
  const connection = await redis.connection();
  const redisCheck = async () => {
    const { stdout } = await runCli(['doctor', '--json', '--redis', `unix://${path}`]);
    const { checks } = JSON.parse(stdout);
    return checks.find(({ name }: { name: string }) => name === 'redis');
  };
  expect(await redisCheck()).toMatchObject({
    state: 'ok',
    detail: expect.stringContaining('appendfsync always'),
  });

  await connection.config('SET', 'appendfsync', 'everysec');
  expect(await redisCheck()).toMatchObject({
    state: 'warning',
    detail: expect.stringMatching(/power cut, or a kill -9 .* up to 2 s of confirmed work/),
    fix: expect.stringContaining('appendfsync always'),
  });

  await connection.config('SET', 'appendonly', 'no');
  expect(await redisCheck()).toMatchObject({
    state: 'warning',
    detail: expect.stringContaining('a restart forgets jobs'),
  });

  await connection.config('SET', 'maxmemory-policy', 'allkeys-lru');
  expect(await redisCheck()).toMatchObject({
    state: 'missing',
    detail: expect.stringContaining('noeviction'),
  });
});

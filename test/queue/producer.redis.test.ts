import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test, vi } from 'vitest';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { EmbeddedRedis } from '../../src/queue/redis/embedded-redis.ts';
import { compileProgram } from '../support/compile.ts';
import { redisOptions, temporaryFolder } from '../support/redis.ts';

// Server processes are started here, on machines that may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const run = promisify(execFile);

test('a producer that closed everything ends by itself and says nothing; its job is kept', async () => {
  await using folder = await temporaryFolder();
  await using program = await compileProgram(join(import.meta.dirname, 'producer-program.ts'));
  // Killed by the time limit, it would reject.
  const output = await run(process.execPath, [program.path, folder.path], { timeout: 15_000 });
  expect(output).toEqual({ stdout: '', stderr: '' });

  await using redis = await EmbeddedRedis.acquire(redisOptions(folder.path));
  const queue = await AudioQueue.open({ address: redis.address, model: 'm' });
  expect(await queue.counts()).toMatchObject({ waiting: 1 });
  await queue.close();
});

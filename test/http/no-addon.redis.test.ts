import { fork } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { compileProgram } from '../support/compile.ts';
import { startRedis } from '../support/redis.ts';
import type { ServingReply, ServingRequest } from './serving-program.ts';

test('no read route loads native code of ours', { timeout: 60_000 }, async () => {
  await using redis = await startRedis();
  await using program = await compileProgram(`${import.meta.dirname}/serving-program.ts`);
  const child = fork(program.path, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const exited = once(child, 'exit');
  const request: ServingRequest = { address: redis.address, folder: redis.dataDir };
  child.send(request);
  const [reply]: [ServingReply] = (await once(child, 'message')) as [ServingReply]; // See the program.
  await exited;
  expect(reply.statuses).toMatchObject({
    '/v1/jobs/:id': 200,
    '/v1/jobs': 200,
    '/v1/models': 200,
    '/v1/workers': 200,
    '/docs': 200,
    '/openapi.json': 200,
  });
  expect(reply.loaded.filter((file) => !file.includes('/node_modules/'))).toEqual([]);
});

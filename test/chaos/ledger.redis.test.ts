/** The account of jobs tells what is lost and doubled from what Redis has only forgotten. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { bullKey } from '../../src/queue/redis/queue-names.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { startRedis } from '../support/redis.ts';
import { transcriptOf } from '../support/transcript.ts';
import { Ledger } from './support/ledger.ts';

test('settled jobs may be forgotten; open ones that vanish, and ends beyond one, are found', async () => {
  await using redis = await startRedis();
  const connection = await redis.connection();
  await using queue = await AudioQueue.open({ address: redis.address, model: 'm' });
  const resultsDir = join(redis.dataDir, 'results');
  const sources = { queues: [queue], connection, resultsDir };
  const ledger = new Ledger();
  const ids = ['settled', 'again', 'vanished', 'open'];
  for (const id of ids) ledger.expect(id, { code: 'CANCELLED' });
  await queue.addMany(ids.map((id) => ({ id, input: { kind: 'path', path: '/nowhere.wav' } })));
  for (const id of ['settled', 'again']) await queue.cancel(id);
  const settled = await ledger.settle(sources);
  expect(settled.toSorted()).toEqual(['again', 'settled']);
  expect(ledger.ids).toEqual(['vanished', 'open']);

  await connection.del(bullKey(connection, 'm', 'settled'), bullKey(connection, 'm', 'vanished'));
  await connection.xadd(
    bullKey(connection, 'm', 'events'),
    '*',
    'event',
    'failed',
    'jobId',
    'again',
  );
  await queue.cancel('open');
  const store = await LocalResultStore.open(resultsDir);
  await store.commit('nobody', transcriptOf('nobody', 'said'));
  const { findings, ...account } = await ledger.account(sources);
  expect(account).toEqual({ jobs: 4, completed: 0, failed: 3, lost: 1, doubled: 2 });
  expect(findings).toEqual([
    'again ended once more, later',
    'vanished is undefined: undefined',
    'vanished ended 0 times',
    expect.stringMatching(/is nobody's result$/),
  ]);
});

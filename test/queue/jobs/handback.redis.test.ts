import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { KILL_LIMIT } from '../../../src/queue/jobs/handback.ts';
import { heard } from '../../support/events.ts';
import { jobNamed } from '../../support/jobs.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { outcomeOf, startManualWorker, startWorker } from '../../support/worker.ts';

// Server processes are started here, on machines that may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

let models = 0;
function openQueue(): Promise<AudioQueue> {
  return AudioQueue.open({ address: redis.address, model: `crash-${++models}` });
}

test('jobs of a dead worker run next, in their old order, with one crash on their count', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await queue.addMany(['a', 'b', 'c', 'd'].map((id) => jobNamed(id, { priority: 0 })));
  const held = [await dying.take(), await dying.take(), await dying.take()];
  const phases: string[] = [];
  queue.on('progress', ({ id, progress }) => phases.push(`${progress.phase} ${id}`));

  const results = await queue.handBack(held);
  expect(results).toEqual(
    new Map([
      ['a', 'waiting'],
      ['b', 'waiting'],
      ['c', 'waiting'],
    ]),
  );
  expect(await queue.get('a')).toMatchObject({ state: 'waiting', data: { crashCount: 1 } });
  expect(await queue.get('d')).toMatchObject({ data: { crashCount: 0 } });

  const ran: unknown[] = [];
  const last = heard(queue, 'completed', 'd');
  await using _ = startWorker(redis.address, queue.model, ({ id }) => ran.push(id));
  await last;
  expect(ran).toEqual(['a', 'b', 'c', 'd']);
  expect(phases.sort()).toEqual(['handed-back a', 'handed-back b', 'handed-back c']);
});

test('a job that the dead worker had taken and not got to say waits again, too, without blame', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await using living = startManualWorker(redis.address, queue.model);
  await queue.addMany(['told', 'untold', 'foreign'].map((id) => jobNamed(id, { priority: 0 })));
  const told = await dying.take();
  const { token } = await dying.take();
  await living.take();
  const [workerId = ''] = token.split(':');
  expect(await queue.handBack([told], [workerId])).toEqual(
    new Map([
      ['untold', 'waiting'],
      ['told', 'waiting'],
    ]),
  );
  const states = await queue.getMany(['told', 'untold', 'foreign']);
  expect([...states.values()].map(({ state, data }) => [state, data.crashCount])).toEqual([
    ['waiting', 1],
    ['waiting', 0],
    ['running', 0],
  ]);
});

test('with a priority they run before the others of that priority', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await queue.addMany(['a', 'b', 'c', 'd'].map((id) => jobNamed(id, { priority: 7 })));
  const held = [await dying.take(), await dying.take()];
  await queue.handBack(held);
  const ran: unknown[] = [];
  await using _ = startWorker(redis.address, queue.model, ({ id }) => ran.push(id));
  await queue.waitFor('d');
  expect(ran).toEqual(['a', 'b', 'c', 'd']);
});

test('a job that had only been taken is handed back without a crash on its count', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await queue.addMany(['a', 'b'].map((id) => jobNamed(id)));
  const held = [
    { ...(await dying.take()), blame: 'crashed' },
    { ...(await dying.take()), blame: 'none' },
  ] as const;
  await queue.handBack(held);
  expect(await queue.get('a')).toMatchObject({ state: 'waiting', data: { crashCount: 1 } });
  expect(await queue.get('b')).toMatchObject({ state: 'waiting', data: { crashCount: 0 } });
});

test('being killed from outside is counted for itself, and fails a job that it happens to again and again', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await queue.add(jobNamed('a'));
  for (let count = 1; count < KILL_LIMIT; count++) {
    await queue.handBack([{ ...(await dying.take()), blame: 'killed' }]);
    expect(await queue.get('a')).toMatchObject({
      state: 'waiting',
      data: { crashCount: 0, killCount: count },
    });
  }
  await queue.handBack([{ ...(await dying.take()), blame: 'killed' }]);
  expect(await queue.get('a')).toMatchObject({ failure: { code: 'WORKER_CRASHED' } });
  expect(await queue.retry('a')).toBe(true);
  await queue.handBack([{ ...(await dying.take()), blame: 'killed' }]);
  expect(await queue.get('a')).toMatchObject({ state: 'waiting' });
});

test('handing back twice changes nothing, even when another worker has the job by then', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await queue.add(jobNamed('a'));
  const held = await dying.take();
  await queue.handBack([held]);
  expect(await queue.handBack([held])).toEqual(new Map([['a', 'skipped']]));
  const again = await dying.take();
  expect(await queue.handBack([held])).toEqual(new Map([['a', 'skipped']]));
  expect(await queue.get('a')).toMatchObject({ state: 'running', data: { crashCount: 1 } });
  expect(again.job.data.crashCount).toBe(1);
});

test('a crash that was counted before the supervisor was interrupted is not counted again', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await queue.add(jobNamed('a'));
  const held = await dying.take();
  await held.job.updateData({ ...held.job.data, crashCount: 1, lastCrashToken: held.token });
  expect(await queue.handBack([held])).toEqual(new Map([['a', 'waiting']]));
  expect(await queue.get('a')).toMatchObject({ data: { crashCount: 1 } });
});

test('a job that was there in two crashes fails, and a retry gives it one more chance', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await queue.add(jobNamed('poison'));
  await queue.handBack([await dying.take()]);
  const failed = expect(queue.waitFor('poison')).rejects.toMatchObject({ code: 'WORKER_CRASHED' });
  expect(await queue.handBack([await dying.take()])).toEqual(new Map([['poison', 'failed']]));
  await failed;
  expect(await queue.get('poison')).toMatchObject({
    state: 'failed',
    failure: { code: 'WORKER_CRASHED' },
    data: { crashCount: 2 },
  });

  await queue.retry('poison');
  expect((await dying.take()).job.data.crashCount).toBe(1);
});

test('jobs that have finished, or are gone, are left alone', async () => {
  await using queue = await openQueue();
  await using worker = startManualWorker(redis.address, queue.model);
  await queue.add(jobNamed('done'));
  const done = await worker.take();
  await done.job.moveToCompleted(outcomeOf('result-of-done'), done.token, false);
  const results = await queue.handBack([done, { jobId: 'gone', token: 'any' }]);
  expect(results).toEqual(
    new Map([
      ['gone', 'skipped'],
      ['done', 'skipped'],
    ]),
  );
  expect(await queue.get('done')).toMatchObject({ state: 'completed', data: { crashCount: 0 } });
});

test('one job that cannot be handed back does not keep the others', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await queue.addMany([jobNamed('a', { priority: 0 }), jobNamed('b', { priority: 0 })]);
  const held = [await dying.take(), await dying.take()];
  const connection = await redis.connection();
  await connection.hset(`wavepool:${queue.name}:b`, 'data', '{"not":"a job"}');
  await expect(queue.handBack(held)).rejects.toThrow(AggregateError);
  expect(await queue.get('a')).toMatchObject({ state: 'waiting' });
});

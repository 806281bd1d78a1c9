import { once } from 'node:events';
import { type Job, Queue } from 'bullmq';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import {
  CancellationListener,
  cancelJob,
  markCancelled,
} from '../../../src/queue/jobs/cancellation.ts';
import { toQueueError } from '../../../src/queue/jobs/failures.ts';
import { queuePrefix } from '../../../src/queue/redis/queue-names.ts';
import type { JobAttempt } from '../../../src/worker/job/job-processor.ts';
import { heard } from '../../support/events.ts';
import { jobNamed } from '../../support/jobs.ts';
import { startModelQueue } from '../../support/model-queue.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { startManualWorker, startWorker } from '../../support/worker.ts';

// Server processes are started here, on machines that may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

let models = 0;
function openQueue(): Promise<AudioQueue> {
  return AudioQueue.open({ address: redis.address, model: `cancel-${++models}` });
}

/** A watch that aborts a signal. */
async function watchOf(listener: CancellationListener, id: string, submittedAt: number) {
  const abort = new AbortController();
  const cancel = (reason: WavepoolError) => abort.abort(reason);
  const watch = await listener.watch({ id, submittedAt, cancel });
  const stop = () => watch.stop();
  return { stop, [Symbol.dispose]: stop, signal: abort.signal };
}

test('a cancelled job that waits, by priority or for its time, ends at once and never runs', async () => {
  await using queue = await openQueue();
  const failed: string[] = [];
  queue.on('failed', ({ id, failure }) => failed.push(`${failure.code} ${id}`));
  await queue.addMany([
    jobNamed('plain', { priority: 0 }),
    jobNamed('ordered', { priority: 5 }),
    jobNamed('later', { delayMs: 3_600_000 }),
    jobNamed('stays'),
  ]);
  const awaited = expect(queue.waitFor('later')).rejects.toMatchObject({ code: 'CANCELLED' });
  for (const id of ['plain', 'ordered', 'later']) expect(await queue.cancel(id)).toBe('cancelled');
  await awaited;
  expect(await queue.get('plain')).toMatchObject({
    state: 'cancelled',
    failure: { code: 'CANCELLED', retryable: false },
  });

  const ran: unknown[] = [];
  const last = heard(queue, 'completed', 'stays');
  await using _ = startWorker(redis.address, queue.model, ({ id }) => ran.push(id));
  await last;
  expect(ran).toEqual(['stays']);
  expect(failed).toEqual(['CANCELLED plain', 'CANCELLED ordered', 'CANCELLED later']);
  expect(await queue.counts()).toMatchObject({ waiting: 0, delayed: 0, running: 0 });
});

test('a worker that sees the mark before the caller looks again has cancelled the job, too', async () => {
  await using queue = await openQueue();
  await using worker = startManualWorker(redis.address, queue.model);
  const connection = await redis.connection();
  const jobs = new Queue(queue.name, { connection, prefix: queuePrefix(connection) });
  await queue.addMany(['cancelled', 'broken'].map((id) => jobNamed(id, { priority: 0 })));
  const results = [];
  for (const code of ['CANCELLED', 'INPUT_UNDECODABLE'] as const) {
    const { job, jobId, token } = await worker.take();
    // As the caller saw it, which was before its end.
    const seen: Job | undefined = await jobs.getJob(jobId);
    if (seen === undefined) throw new Error('it is there');
    await job.moveToFailed(toQueueError(new WavepoolError(code, jobId)), token);
    results.push(await cancelJob(connection, queue.name, seen, jobId));
  }
  await jobs.close();
  expect(results).toEqual(['cancelled', 'finished']);
});

test('cancelling twice, too late, or what nobody knows does no harm', async () => {
  await using queue = await openQueue();
  await queue.add(jobNamed('a'));
  expect(await queue.cancel('a')).toBe('cancelled');
  expect(await queue.cancel('a')).toBe('finished');
  await using _ = startWorker(redis.address, queue.model, () => undefined);
  await queue.add(jobNamed('done'));
  await queue.waitFor('done');
  expect(await queue.cancel('done')).toBe('finished');
  expect(await queue.get('done')).toMatchObject({ state: 'completed' });
  await expect(queue.cancel('unknown')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
});

test('the worker of a running job hears of it; the job ends cancelled and is not tried again', async () => {
  await using queue = await openQueue();
  using listener = await CancellationListener.open({ address: redis.address, queue: queue.model });
  let runs = 0;
  await using _ = startWorker(redis.address, queue.model, async ({ id = '', data }) => {
    runs++;
    using watch = await watchOf(listener, id, data.submittedAt);
    const result = queue.cancel(id);
    if (!watch.signal.aborted) await once(watch.signal, 'abort');
    expect(await result).toBe('requested');
    throw watch.signal.reason;
  });
  await queue.add(jobNamed('a'));
  await expect(queue.waitFor('a')).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(await queue.get('a')).toMatchObject({ state: 'cancelled', attemptsMade: 1 });
  expect(runs).toBe(1);
});

test('a request that nobody heard reaches the worker that takes the job next, and only that job', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  await queue.addMany([jobNamed('a', { priority: 0 }), jobNamed('b', { priority: 0 })]);
  const held = await dying.take();
  expect(await queue.cancel('a')).toBe('requested');
  await queue.handBack([held]);

  using listener = await CancellationListener.open({ address: redis.address, queue: queue.model });
  const { submittedAt } = held.job.data;
  using watched = await watchOf(listener, 'a', submittedAt);
  expect(watched.signal.reason).toMatchObject({ code: 'CANCELLED' });
  using other = await watchOf(listener, 'b', submittedAt);
  expect(other.signal.aborted).toBe(false);
  using namesake = await watchOf(listener, 'a', submittedAt + 1);
  expect(namesake.signal.aborted).toBe(false);
});

test('a cancelled job runs when it is retried', async () => {
  await using queue = await openQueue();
  using listener = await CancellationListener.open({ address: redis.address, queue: queue.model });
  await using worker = startManualWorker(redis.address, queue.model);
  await queue.add(jobNamed('a'));
  const { job: running, token } = await worker.take();
  await queue.cancel('a');
  await running.moveToFailed(toQueueError(new WavepoolError('CANCELLED', 'job a')), token);
  expect(await queue.get('a')).toMatchObject({ state: 'cancelled' });

  expect(await queue.retry('a')).toBe(true);
  using watched = await watchOf(listener, 'a', running.data.submittedAt);
  expect(watched.signal.aborted).toBe(false);
});

test('a job that is no longer watched is left alone', async () => {
  await using queue = await openQueue();
  using listener = await CancellationListener.open({ address: redis.address, queue: queue.model });
  await using worker = startManualWorker(redis.address, queue.model);
  await queue.addMany([jobNamed('a', { priority: 0 }), jobNamed('b', { priority: 0 })]);
  const a = await worker.take();
  const b = await worker.take();
  const stopped = await watchOf(listener, 'a', a.job.data.submittedAt);
  using watched = await watchOf(listener, 'b', b.job.data.submittedAt);
  stopped.stop();
  await queue.cancel('a');
  const heard = once(watched.signal, 'abort');
  await queue.cancel('b');
  await heard;
  expect(stopped.signal.aborted).toBe(false);
});

test('jobs that are taken together are told each of its own request', async () => {
  await using queue = await openQueue();
  await using dying = startManualWorker(redis.address, queue.model);
  const names = ['a', 'b', 'c', 'd', 'e'];
  await queue.addMany(names.map((name) => jobNamed(name, { priority: 0 })));
  const taken = [];
  for (const _ of names) taken.push(await dying.take());
  await queue.cancel('b');
  await queue.cancel('e');
  await queue.handBack(taken);

  using listener = await CancellationListener.open({ address: redis.address, queue: queue.name });
  const watches = await Promise.all(
    taken.map(({ job, jobId }) => watchOf(listener, jobId, job.data.submittedAt)),
  );
  const cancelled = names.filter((_, at) => watches[at]?.signal.aborted);
  expect(cancelled).toEqual(['b', 'e']);
});

test('a request that is heard before the worker knows of the job is not lost', async () => {
  await using queue = await openQueue();
  using listener = await CancellationListener.open({ address: redis.address, queue: queue.name });
  await using worker = startManualWorker(redis.address, queue.model);
  await queue.addMany([jobNamed('a', { priority: 0 }), jobNamed('b', { priority: 0 })]);
  const { job, jobId } = await worker.take();
  expect(await queue.cancel(jobId)).toBe('requested');
  using watched = await watchOf(listener, jobId, job.data.submittedAt);
  expect(watched.signal.reason).toMatchObject({ code: 'CANCELLED' });
  using other = await watchOf(listener, 'b', job.data.submittedAt);
  expect(other.signal.aborted).toBe(false);
});

test('a request made while the connection of a listener was lost is found when it is back', async () => {
  const connection = await redis.connection();
  using listener = await CancellationListener.open({ address: redis.address, queue: 'lost' });
  using watched = await watchOf(listener, 'watched', 1);
  const heard = once(watched.signal, 'abort');
  // Its message comes to nobody.
  await markCancelled(connection, 'lost', 'watched', 1);
  await connection.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  await heard;
  expect(watched.signal.reason).toMatchObject({ code: 'CANCELLED' });
});

test('a job whose cancelling was broken off ends when a worker takes it', async () => {
  await using queue = await openQueue();
  using listener = await CancellationListener.open({ address: redis.address, queue: queue.name });
  const connection = await redis.connection();
  const jobs = new Queue(queue.name, { connection, prefix: queuePrefix(connection) });
  await queue.add(jobNamed('a', { priority: 0 }));
  const job: Job | undefined = await jobs.getJob('a');
  if (job === undefined) throw new Error('it is there');
  vi.spyOn(job, 'moveToFailed').mockRejectedValue(new Error('the process was killed'));
  await expect(cancelJob(connection, queue.name, job, 'a')).rejects.toThrow('killed');
  await jobs.close();
  using watched = await watchOf(listener, 'a', job.data.submittedAt);
  expect(watched.signal.reason).toMatchObject({ code: 'CANCELLED' });
});

test('whenever a request comes while its job is taken, the job ends by it', async () => {
  await using queue = await openQueue();
  const untilCancelled = async ({ signal }: Pick<JobAttempt, 'signal'>) => {
    if (!signal.aborted) await once(signal, 'abort');
    throw signal.reason;
  };
  await using _ = await startModelQueue(redis.address, queue.model, 50, untilCancelled);
  await using _other = await startModelQueue(redis.address, queue.model, 50, untilCancelled);
  const cancelled = async (id: string, questions: number) => {
    await queue.add(jobNamed(id));
    // Each takes a moment.
    for (let asked = 0; asked < questions; asked += 1) await queue.get(id);
    await queue.cancel(id);
    await expect(queue.waitFor(id)).rejects.toMatchObject({ code: 'CANCELLED' });
  };
  for (let round = 0; round < 10; round += 1) {
    const jobs = Array.from({ length: 60 }, (_, at) => cancelled(`${round}-${at}`, at % 6));
    await Promise.all(jobs);
  }
});

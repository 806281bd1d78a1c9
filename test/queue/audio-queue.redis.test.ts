import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { WavepoolError } from '../../src/core/errors.ts';
import type { NewJob } from '../../src/core/job/job.ts';
import { AudioQueue, type AudioQueueOptions } from '../../src/queue/audio-queue.ts';
import { EmbeddedRedis } from '../../src/queue/redis/embedded-redis.ts';
import { heard } from '../support/events.ts';
import { signalProcess } from '../support/process-table.ts';
import { redisOptions, startRedis, type TestRedis, temporaryFolder } from '../support/redis.ts';
import { outcomeOf, startWorker } from '../support/worker.ts';

// Server processes are started here, on machines that may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

let models = 0;
function openQueue(options: Partial<AudioQueueOptions> = {}): Promise<AudioQueue> {
  return AudioQueue.open({ address: redis.address, model: `model-${++models}`, ...options });
}

function job(id: string, more: Partial<NewJob> = {}): NewJob {
  return { id, input: { kind: 'path', path: `/audio/${id}.wav` }, ...more };
}

test('a job is seen waiting, running and completed, with its outcome', async () => {
  await using queue = await openQueue({ now: () => 1_700_000_000_000 });
  const seen: string[] = [];
  queue.on('running', ({ id }) => seen.push(`running ${id}`));
  queue.on('progress', ({ id, progress }) => seen.push(`${progress.phase} ${id}`));
  queue.on('completed', ({ id, outcome }) => seen.push(`completed ${id} ${outcome.resultKey}`));
  const completed = heard(queue, 'completed', 'a');

  expect(await queue.add(job('a'))).toBe('a');
  expect(await queue.get('a')).toMatchObject({
    id: 'a',
    state: 'waiting',
    data: { model: queue.model, submittedAt: 1_700_000_000_000, tenant: 'default' },
    outcome: undefined,
    failure: undefined,
  });
  await using _ = startWorker(redis.address, queue.model, (running) =>
    running.updateProgress({
      phase: 'decoding',
      processedSeconds: 1,
      totalSeconds: null,
      segmentsDone: 0,
    }),
  );
  expect(await queue.waitFor('a')).toEqual(outcomeOf('result-of-a'));
  await completed;
  expect(seen).toEqual(['running a', 'decoding a', 'completed a result-of-a']);
  expect(await queue.get('a')).toMatchObject({
    state: 'completed',
    attemptsMade: 1,
    progress: { phase: 'decoding' },
    outcome: outcomeOf('result-of-a'),
  });
  expect(await queue.counts()).toEqual({
    waiting: 0,
    delayed: 0,
    running: 0,
    completed: 1,
    failed: 0,
  });
});

test('adding an id that the queue knows runs nothing, whether it waits or has finished', async () => {
  await using queue = await openQueue();
  const ran: unknown[] = [];
  await queue.add(job('a'));
  await queue.add(job('a'));
  await using _ = startWorker(redis.address, queue.model, ({ id }) => ran.push(id));
  await queue.waitFor('a');
  await queue.add(job('a'));
  await queue.addMany([job('a'), job('last')]);
  await queue.waitFor('last');
  expect(ran).toEqual(['a', 'last']);
});

test('a failure that stays is not tried again, keeps its code, and may be retried by hand', async () => {
  await using queue = await openQueue();
  let broken = true;
  let runs = 0;
  await using _ = startWorker(redis.address, queue.model, () => {
    runs++;
    if (broken) throw new WavepoolError('INPUT_UNDECODABLE', 'a.wav: not audio');
  });
  await queue.add(job('a'));
  await expect(queue.waitFor('a')).rejects.toMatchObject({
    code: 'INPUT_UNDECODABLE',
    detail: 'a.wav: not audio',
  });
  expect(runs).toBe(1);
  expect(await queue.get('a')).toMatchObject({
    state: 'failed',
    failure: { code: 'INPUT_UNDECODABLE', retryable: false },
  });

  broken = false;
  expect(await queue.retry('a')).toBe(true);
  await queue.waitFor('a');
  expect(await queue.get('a')).toMatchObject({ state: 'completed', failure: undefined });
  expect(await queue.retry('a')).toBe(false);
  await expect(queue.retry('unknown')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
});

test('a failure that may pass is tried again, and its reason does not outlive the success', async () => {
  await using queue = await openQueue();
  const failures: string[] = [];
  queue.on('failed', ({ id }) => failures.push(id));
  const completed = heard(queue, 'completed', 'a');
  let runs = 0;
  await using _ = startWorker(redis.address, queue.model, () => {
    if (++runs === 1) throw new WavepoolError('STORAGE_FULL', '/results');
  });
  await queue.add(job('a'));
  expect(await queue.waitFor('a')).toEqual(outcomeOf('result-of-a'));
  expect(runs).toBe(2);
  await completed;
  expect(failures).toEqual([]);
  expect(await queue.get('a')).toMatchObject({ state: 'completed', failure: undefined });
});

test('waiting for a job that has long finished gives its end at once', async () => {
  await using queue = await openQueue();
  await using _ = startWorker(redis.address, queue.model, ({ id }) => {
    if (id === 'bad') throw new WavepoolError('INPUT_EMPTY', 'bad.wav');
  });
  await queue.addMany([job('good'), job('bad')]);
  await Promise.allSettled([queue.waitFor('good'), queue.waitFor('bad')]);

  await using later = await openQueue({ model: queue.model });
  expect(await later.waitFor('good')).toEqual(outcomeOf('result-of-good'));
  await expect(later.waitFor('bad')).rejects.toMatchObject({ code: 'INPUT_EMPTY' });
});

test('waiting ends when the job is unknown or removed, the signal aborts, or the queue closes', async () => {
  const queue = await openQueue();
  await queue.addMany([job('a'), job('b'), job('c')]);
  await expect(queue.waitFor('unknown')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });

  const reason = new Error('enough');
  const controller = new AbortController();
  const aborted = queue.waitFor('a', controller.signal);
  controller.abort(reason);
  await expect(aborted).rejects.toBe(reason);
  await expect(queue.waitFor('a', AbortSignal.abort(reason))).rejects.toBe(reason);

  const removed = expect(queue.waitFor('b')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
  expect(await queue.remove('b')).toBe(true);
  await removed;
  expect(await queue.get('b')).toBeUndefined();
  expect(await queue.remove('b')).toBe(false);

  const closed = expect(queue.waitFor('c')).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
  await queue.close();
  await closed;
});

test('a watched job is told once, be it finished before, and once more after a retry', async () => {
  await using queue = await openQueue();
  let broken = true;
  await using _ = startWorker(redis.address, queue.model, ({ id }) => {
    if (broken && id === 'a') throw new WavepoolError('INPUT_EMPTY', 'a.wav');
  });
  await queue.addMany([job('a'), job('b')]);
  await Promise.allSettled([queue.waitFor('a'), queue.waitFor('b')]);

  await using late = await openQueue({ model: queue.model, reconcileIntervalMs: 5 });
  const told: string[] = [];
  late.on('completed', ({ id }) => told.push(`completed ${id}`));
  late.on('failed', ({ id, failure }) => told.push(`${failure.code} ${id}`));
  late.on('removed', ({ id }) => told.push(`removed ${id}`));
  await late.watch(['a', 'b', 'unknown']);
  expect(told.sort()).toEqual(['INPUT_EMPTY a', 'completed b', 'removed unknown']);

  broken = false;
  told.length = 0;
  await late.retry('a');
  await late.watch(['a']);
  await late.waitFor('a');
  const last = heard(late, 'completed', 'last');
  await late.add(job('last'));
  await last;
  expect(told).toEqual(['completed a', 'completed last']);
});

test('an end whose event was lost is told from the state of the job', async () => {
  await using queue = await openQueue({ reconcileIntervalMs: 5 });
  const connection = await redis.connection();
  await queue.add(job('a'));
  await queue.watch(['a']);
  const told = new Promise<string>((resolve) => {
    queue.on('removed', ({ id }) => resolve(id));
  });
  // As if the job had been evicted: no event at all.
  await connection.del(`wavepool:${queue.name}:a`);
  expect(await told).toBe('a');
});

test('a listener that throws is reported and stops nobody else', async () => {
  await using queue = await openQueue();
  const errors: unknown[] = [];
  const completed: string[] = [];
  queue.on('error', (error) => errors.push(error));
  queue.on('completed', () => {
    throw new Error('careless');
  });
  queue.on('completed', ({ id }) => completed.push(id));
  const last = heard(queue, 'completed', 'b');
  await using _ = startWorker(redis.address, queue.model, () => undefined);
  await queue.addMany([job('a'), job('b')]);
  await last;
  expect(completed).toEqual(['a', 'b']);
  expect(errors).toEqual([new Error('careless'), new Error('careless')]);
});

test('two thousand jobs are added in order, once, and run by priority', async () => {
  await using queue = await openQueue();
  const jobs = Array.from({ length: 2_000 }, (_, n) => job(`job-${n}`, { priority: 20 }));
  const ids = await queue.addMany(jobs);
  expect(ids).toEqual(jobs.map(({ id }) => id));
  await queue.addMany(jobs.slice(500, 1_500));
  await queue.add(job('urgent', { priority: 10 }));
  expect(await queue.counts()).toMatchObject({ waiting: 2_001 });
  expect((await queue.getMany(['job-7', 'nobody', 'urgent'])).size).toBe(2);

  const ran: unknown[] = [];
  await using _ = startWorker(redis.address, queue.model, ({ id }) => ran.push(id));
  await queue.waitFor('job-2');
  expect(ran.slice(0, 4)).toEqual(['urgent', 'job-0', 'job-1', 'job-2']);
});

test('one bad job among many is refused before anything is added', async () => {
  await using queue = await openQueue();
  await expect(queue.addMany([job('a'), job('12345')])).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
  });
  expect(await queue.counts()).toMatchObject({ waiting: 0 });
});

test('jobs without an id get one each', async () => {
  await using queue = await openQueue();
  const input = { kind: 'path', path: '/same.wav' } as const;
  const ids = await queue.addMany([{ input }, { input }]);
  expect(new Set(ids).size).toBe(2);
});

test('the server may die while jobs are added and awaited: all are there, once, and events go on', async () => {
  await using own = await startRedis();
  await using queue = await AudioQueue.open({
    address: own.address,
    model: 'survivor',
    whenDisconnected: 'wait',
  });
  const jobs = Array.from({ length: 2_000 }, (_, n) => job(`job-${n}`, { priority: 0 }));
  const adding = queue.addMany(jobs);
  signalProcess(own.embedded.serverPid, 'SIGKILL');
  await adding;
  expect(await queue.counts()).toMatchObject({ waiting: 2_000 });

  const first = queue.waitFor('job-0');
  await using _ = startWorker(own.address, 'survivor', () => undefined);
  expect(await first).toEqual(outcomeOf('result-of-job-0'));
});

test('without Redis, opening and adding fail at once, and closing does not hang', async () => {
  await using folder = await temporaryFolder();
  const own = await EmbeddedRedis.acquire(redisOptions(folder.path));
  const { address, serverPid } = own;
  const queue = await AudioQueue.open({ address, model: 'm' });
  // Nobody restarts a server that nobody holds.
  expect(await own.release()).toBe(false);
  signalProcess(serverPid, 'SIGKILL');
  await expect(queue.add(job('a'))).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  await expect(AudioQueue.open({ address, model: 'm' })).rejects.toMatchObject({
    code: 'REDIS_UNAVAILABLE',
  });
  await queue.close();
});

test('a server that would drop jobs is refused, with what to change', async () => {
  const connection = await redis.connection();
  await connection.config('SET', 'maxmemory-policy', 'allkeys-lru');
  try {
    await expect(openQueue()).rejects.toMatchObject({
      code: 'REDIS_UNSUITABLE',
      message: expect.stringContaining('CONFIG SET maxmemory-policy noeviction'),
    });
  } finally {
    await connection.config('SET', 'maxmemory-policy', 'noeviction');
  }
});

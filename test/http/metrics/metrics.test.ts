import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import type { WorkerPresence } from '../../../src/core/worker/status.ts';
import {
  createMetrics,
  type Metrics,
  type ServiceState,
} from '../../../src/http/metrics/metrics.ts';
import type { AudioQueue } from '../../../src/queue/audio-queue.ts';
import type { JobEventMap } from '../../../src/queue/events/job-events.ts';
import { modelStatusOf, presenceOf } from '../../support/presence.ts';
import { outcomeOf } from '../../support/worker.ts';

const NO_JOBS = { waiting: 0, delayed: 0, running: 0, completed: 0, failed: 0 };

/** The samples whose names start with `prefix`, as `name{labels}` → value. */
async function samples(metrics: Metrics, prefix: string): Promise<Record<string, number>> {
  const lines = (await metrics.render()).split('\n').filter((line) => line.startsWith(prefix));
  return Object.fromEntries(
    lines.map((line) => {
      const space = line.lastIndexOf(' ');
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
}

function metricsOf(state: () => ServiceState, startedAt = 0): Metrics {
  return createMetrics({ overview: () => Promise.resolve(state()), now: () => startedAt });
}

/** A queue whose events the test tells. */
function toldQueue(model: string) {
  const listeners = new Map<string, (event: never) => void>();
  const queue: Pick<AudioQueue, 'model' | 'on'> = {
    model,
    on(name, listener) {
      listeners.set(name, listener);
      // What `on` returns is not used by who gets this.
      return this as unknown as AudioQueue;
    },
  };
  const tell = <Name extends keyof JobEventMap>(name: Name, event: JobEventMap[Name]): void =>
    listeners.get(name)?.(event as never);
  return { queue, tell };
}

function busy(worker: WorkerPresence, batchSizes: number[], busyMs: number): WorkerPresence {
  const { batches } = modelStatusOf('m');
  const stats = { ...batches, batchSizes, busyMs, audioSeconds: busyMs / 100 };
  return {
    ...worker,
    runtime: { build: 'b', models: [modelStatusOf('m', { batches: stats })] },
  };
}

test('queues, workers, slots and memory are shown as they are, and what has gone is not', async () => {
  const served = { model: 'm', workers: 2, counts: { ...NO_JOBS, waiting: 5, failed: 1 } };
  const worker = (pid: number) =>
    presenceOf({ host: 'box', pid, runtime: { build: 'b', models: [modelStatusOf('m')] } });
  let state: ServiceState = { queues: [served], workers: [worker(1), worker(2)] };
  const metrics = metricsOf(() => state);
  expect(await samples(metrics, 'wavepool_queue')).toMatchObject({
    'wavepool_queue_jobs{model="m",state="waiting"}': 5,
    'wavepool_queue_jobs{model="m",state="failed"}': 1,
    'wavepool_queue_jobs{model="m",state="running"}': 0,
    'wavepool_queue_workers{model="m"}': 2,
  });
  expect(await samples(metrics, 'wavepool_slots')).toEqual({
    'wavepool_slots{model="m"}': 4,
    'wavepool_slots_active{model="m"}': 2,
  });
  expect(await samples(metrics, 'wavepool_worker')).toEqual({
    wavepool_workers: 2,
    'wavepool_worker_jobs{worker="box:1"}': 4,
    'wavepool_worker_jobs{worker="box:2"}': 4,
    'wavepool_worker_resident_bytes{worker="box:1"}': 104_857_600,
    'wavepool_worker_resident_bytes{worker="box:2"}': 104_857_600,
  });
  expect(await samples(metrics, 'wavepool_model')).toEqual({
    'wavepool_model_bytes{model="m"}': 2 * (1_048_576 + 2_048),
  });
  expect(await samples(metrics, 'wavepool_segments')).toEqual({
    'wavepool_segments_waiting{model="m"}': 6,
  });
  state = { queues: [], workers: [] };
  expect(await samples(metrics, 'wavepool_slots')).toEqual({});
  expect(await samples(metrics, 'wavepool_worker')).toEqual({ wavepool_workers: 0 });
});

test('ends of jobs are counted, with their times and reasons', async () => {
  const metrics = metricsOf(() => ({ queues: [], workers: [] }));
  const { queue, tell } = toldQueue('m');
  metrics.observe(queue);
  const timings = { queuedMs: 2_000, decodeMs: 0, vadMs: 0, asrMs: 0, totalMs: 500 };
  tell('completed', { id: 'a', outcome: { ...outcomeOf('r'), durationSeconds: 30, timings } });
  for (const code of ['INPUT_EMPTY', 'CANCELLED'] as const)
    tell('failed', { id: code, failure: { code, message: '', retryable: false } });
  expect(await samples(metrics, 'wavepool_jobs_ended')).toEqual({
    'wavepool_jobs_ended_total{model="m",end="completed"}': 1,
    'wavepool_jobs_ended_total{model="m",end="failed"}': 1,
    'wavepool_jobs_ended_total{model="m",end="cancelled"}': 1,
  });
  expect(await samples(metrics, 'wavepool_failures')).toEqual({
    'wavepool_failures_total{model="m",code="INPUT_EMPTY"}': 1,
    'wavepool_failures_total{model="m",code="CANCELLED"}': 1,
  });
  tell('stalled', { id: 'late' });
  expect(await samples(metrics, 'wavepool_lost_locks')).toEqual({
    'wavepool_lost_locks_total{model="m"}': 1,
  });
  expect(await samples(metrics, 'wavepool_job_')).toMatchObject({
    'wavepool_job_wait_seconds_bucket{le="1",model="m"}': 0,
    'wavepool_job_wait_seconds_bucket{le="2.5",model="m"}': 1,
    'wavepool_job_run_seconds_sum{model="m"}': 0.5,
    'wavepool_job_times_real_time_sum{model="m"}': 60,
  });
  expect(await samples(metrics, 'wavepool_audio')).toEqual({
    'wavepool_audio_seconds_total{model="m"}': 30,
  });
});

test('refusals are counted by code', async () => {
  const metrics = metricsOf(() => ({ queues: [], workers: [] }));
  metrics.countRefusal('QUEUE_FULL');
  metrics.countRefusal('QUEUE_FULL');
  expect(await samples(metrics, 'wavepool_refusals')).toEqual({
    'wavepool_refusals_total{code="QUEUE_FULL"}': 2,
  });
});

test('batches are counted once, also of a worker that was out of sight, and not those before the start', async () => {
  const older = presenceOf({ startedAt: 50 });
  const newer = presenceOf({ startedAt: 150 });
  let workers = [busy(older, [9, 9], 9_000), busy(newer, [1, 0, 2], 3_000)];
  const metrics = metricsOf(() => ({ queues: [], workers }), 100);
  const totals = async () => ({
    ...(await samples(metrics, 'wavepool_batch_size')),
    ...(await samples(metrics, 'wavepool_slot_')),
  });
  expect(await totals()).toMatchObject({
    'wavepool_batch_size_count{model="m"}': 3,
    'wavepool_batch_size_sum{model="m"}': 7,
    'wavepool_batch_size_bucket{le="2",model="m"}': 1,
    'wavepool_slot_busy_seconds_total{model="m"}': 3,
    'wavepool_slot_audio_seconds_total{model="m"}': 30,
  });
  workers = [busy(older, [9, 10], 9_500)];
  expect(await totals()).toMatchObject({ 'wavepool_batch_size_sum{model="m"}': 9 });
  workers = [busy(newer, [2, 0, 2], 4_000)];
  expect(await totals()).toMatchObject({
    'wavepool_batch_size_sum{model="m"}': 10,
    'wavepool_slot_busy_seconds_total{model="m"}': 4.5,
  });
});

test('without Redis the process still tells of itself, and that Redis is away', async () => {
  const metrics = createMetrics({
    overview: () => Promise.reject(new WavepoolError('REDIS_UNAVAILABLE', 'gone')),
  });
  expect(await samples(metrics, 'wavepool_redis')).toEqual({ wavepool_redis_up: 0 });
  expect(await samples(metrics, 'process_resident')).not.toEqual({});
  expect(metrics.contentType).toContain('text/plain');
});

test('a defect is not taken for an outage', async () => {
  const metrics = createMetrics({ overview: () => Promise.reject(new TypeError('defect')) });
  await expect(metrics.render()).rejects.toThrow('defect');
});

test('docs/operations.md lists every metric of ours with its type, and no other', async () => {
  const metrics = metricsOf(() => ({ queues: [], workers: [] }));
  const types = [...(await metrics.render()).matchAll(/^# TYPE (wavepool_\w+) (\w+)$/gm)];
  const docs = await readFile(new URL('../../../docs/operations.md', import.meta.url), 'utf8');
  const rows = [...docs.matchAll(/^\| `(wavepool_\w+)` \| (\w+) \|/gm)];
  const named = (matches: RegExpMatchArray[]) =>
    matches.map(([, name, type]) => `${name} ${type}`).toSorted();
  expect(named(rows)).toEqual(named(types));
});

test('any number of tenants gives a bounded number of series, and no job is left out of them', async () => {
  const loads = Array.from({ length: 200 }, (_, at) => ({
    tenant: `t${at}`,
    model: 'm',
    waiting: at,
    running: 1,
  }));
  const metrics = createMetrics({
    overview: () => Promise.resolve({ queues: [], workers: [] }),
    loads: () => Promise.resolve(loads),
  });
  const waiting = await samples(metrics, 'wavepool_tenant_jobs_waiting');
  expect(Object.keys(waiting)).toHaveLength(51);
  expect(waiting['wavepool_tenant_jobs_waiting{tenant="t199"}']).toBe(199);
  expect(Object.values(waiting).reduce((sum, each) => sum + each, 0)).toBe((199 * 200) / 2);
  const running = await samples(metrics, 'wavepool_tenant_jobs_running');
  expect(running['wavepool_tenant_jobs_running{tenant="(others)"}']).toBe(150);
});

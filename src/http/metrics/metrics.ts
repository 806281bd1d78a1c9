/**
 * The metrics of the service for Prometheus; docs/operations.md lists them. Gauges show the service as it is when they are
 * asked for; what happens is counted from the start of this process on.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type ErrorCode, WavepoolError } from '../../core/errors.ts';
import type { JobOutcome } from '../../core/job/job.ts';
import type { WorkerPresence } from '../../core/worker/status.ts';
import type { AudioQueue } from '../../queue/audio-queue.ts';
import type { QueueOverview, ServiceOverview } from '../../queue/fleet/overview.ts';
import type { TenantLoad } from '../../queue/tenants/tenant-loads.ts';
import { type BatchProgress, WorkerTotals } from './worker-totals.ts';

export type ServiceState = Pick<ServiceOverview, 'queues' | 'workers'>;

export interface MetricsSources {
  /** Reads the present state of queues and workers; see `readOverview`. */
  readonly overview: () => Promise<ServiceState>;
  /** Reads how many jobs of these models each tenant has. @defaultValue there are none */
  readonly loads?: (models: readonly string[]) => Promise<readonly TenantLoad[]>;
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: () => number;
}

export interface Metrics {
  /** The media type of what `render` returns. */
  readonly contentType: string;
  /** While Redis is away, it shows only what this process knows, and `wavepool_redis_up` is 0. */
  render(): Promise<string>;
  /** Counts from now on how the jobs of a queue end. Call it once for each queue. */
  observe(queue: Pick<AudioQueue, 'model' | 'on'>): void;
  /** Counts a request that was turned down. */
  countRefusal(code: ErrorCode): void;
}

const SECONDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400];
const TIMES_REAL_TIME = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500];
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64];

export function createMetrics({
  overview,
  loads = () => Promise.resolve([]),
  now = Date.now,
}: MetricsSources): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const make = new Instruments(registry);
  const service = new ServiceGauges(make);
  const tenants = new TenantGauges(make);
  const jobs = new JobMetrics(make);
  const batches = new BatchMetrics(make);
  const refusals = make.counter(
    'wavepool_refusals_total',
    'Requests that were turned down, by code of the error table.',
    'code',
  );
  const totals = new WorkerTotals(now());
  return {
    contentType: registry.contentType,
    render: async () => {
      const state = await unlessAway(overview);
      service.show(state);
      const models = (state?.queues ?? []).map(({ model }) => model);
      tenants.show((await unlessAway(() => loads(models))) ?? []);
      for (const progress of totals.advance(state?.workers ?? [], now())) batches.add(progress);
      return registry.metrics();
    },
    observe: (queue) => {
      const { model } = queue;
      queue.on('completed', ({ outcome }) => jobs.complete(model, outcome));
      queue.on('failed', ({ failure }) => jobs.fail(model, failure.code));
      queue.on('stalled', () => jobs.loseLock(model));
    },
    countRefusal: (code) => refusals.inc({ code }),
  };
}

async function unlessAway<Read>(read: () => Promise<Read>): Promise<Read | undefined> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof WavepoolError && error.code === 'REDIS_UNAVAILABLE') return undefined;
    throw error;
  }
}

/** Makes metrics of one registry. */
class Instruments {
  readonly #registers: Registry[];

  constructor(registry: Registry) {
    this.#registers = [registry];
  }

  gauge<Label extends string>(name: string, help: string, ...labelNames: Label[]): Gauge<Label> {
    return new Gauge({ name, help, labelNames, registers: this.#registers });
  }

  counter<Label extends string>(name: string, help: string, ...labelNames: Label[]) {
    return new Counter({ name, help, labelNames, registers: this.#registers });
  }

  /** Its label is the model. */
  histogram(name: string, help: string, buckets: number[]): Histogram<'model'> {
    const labelNames = ['model'] as const;
    return new Histogram({ name, help, buckets, labelNames, registers: this.#registers });
  }
}

/** Shows the present state of the service. */
class ServiceGauges {
  readonly #redisUp: Gauge;
  readonly #jobs: Gauge<'model' | 'state'>;
  readonly #queueWorkers: Gauge<'model'>;
  readonly #workers: Gauge;
  readonly #heldJobs: Gauge<'worker'>;
  readonly #residentBytes: Gauge<'worker'>;
  readonly #modelBytes: Gauge<'model'>;
  readonly #slots: Gauge<'model'>;
  readonly #activeSlots: Gauge<'model'>;
  readonly #waitingSegments: Gauge<'model'>;

  constructor(make: Instruments) {
    this.#redisUp = make.gauge('wavepool_redis_up', 'Whether Redis answers.');
    this.#jobs = make.gauge('wavepool_queue_jobs', 'Jobs, by model and state.', 'model', 'state');
    this.#queueWorkers = make.gauge(
      'wavepool_queue_workers',
      'Live workers that serve a model.',
      'model',
    );
    this.#workers = make.gauge('wavepool_workers', 'Live workers.');
    this.#heldJobs = make.gauge('wavepool_worker_jobs', 'Jobs that a worker holds.', 'worker');
    this.#residentBytes = make.gauge(
      'wavepool_worker_resident_bytes',
      'Memory of a worker process.',
      'worker',
    );
    this.#modelBytes = make.gauge(
      'wavepool_model_bytes',
      'Memory of weights and sessions, over all workers.',
      'model',
    );
    this.#slots = make.gauge('wavepool_slots', 'Slots of loaded models.', 'model');
    this.#activeSlots = make.gauge('wavepool_slots_active', 'Slots that run a batch.', 'model');
    this.#waitingSegments = make.gauge(
      'wavepool_segments_waiting',
      'Segments that wait for a slot.',
      'model',
    );
  }

  show(state: ServiceState | undefined): void {
    this.#redisUp.set(state === undefined ? 0 : 1);
    // The series of models and workers that have gone end.
    for (const gauge of [this.#jobs, this.#queueWorkers, this.#heldJobs, this.#residentBytes])
      gauge.reset();
    for (const gauge of [this.#modelBytes, this.#slots, this.#activeSlots, this.#waitingSegments])
      gauge.reset();
    this.#workers.set(state?.workers.length ?? 0);
    for (const queue of state?.queues ?? []) this.#showQueue(queue);
    for (const worker of state?.workers ?? []) this.#showWorker(worker);
  }

  #showQueue({ model, counts, workers }: QueueOverview): void {
    for (const [state, count] of Object.entries(counts)) this.#jobs.set({ model, state }, count);
    this.#queueWorkers.set({ model }, workers);
  }

  #showWorker({ host, pid, heldJobs, residentBytes, runtime }: WorkerPresence): void {
    const worker = `${host}:${pid}`;
    this.#heldJobs.set({ worker }, heldJobs);
    this.#residentBytes.set({ worker }, residentBytes);
    for (const { id: model, loaded, slots, activeSlots, batches, ...memory } of runtime.models) {
      const sessionBytes = memory.sessionBytes?.reduce((sum, bytes) => sum + bytes, 0) ?? 0;
      this.#modelBytes.inc({ model }, (memory.weightBytes ?? 0) + sessionBytes);
      this.#slots.inc({ model }, loaded ? slots : 0);
      this.#activeSlots.inc({ model }, activeSlots);
      this.#waitingSegments.inc({ model }, batches.queuedItems);
    }
  }
}

/** This many tenants have a label of their own. */
const MOST_NAMED = 50;
/** No tenant can have this name: names have no parentheses. */
const OTHERS = '(others)';

/** There may be any number of tenants: the busiest have a label of their own, the others share one. */
class TenantGauges {
  readonly #waiting: Gauge<'tenant'>;
  readonly #running: Gauge<'tenant'>;

  constructor(make: Instruments) {
    const of = `by tenant: the ${MOST_NAMED} busiest, and ${OTHERS}.`;
    this.#waiting = make.gauge('wavepool_tenant_jobs_waiting', `Jobs that wait, ${of}`, 'tenant');
    this.#running = make.gauge('wavepool_tenant_jobs_running', `Jobs that run, ${of}`, 'tenant');
  }

  show(loads: readonly TenantLoad[]): void {
    this.#waiting.reset();
    this.#running.reset();
    const jobs = new Map<string, number>();
    for (const { tenant, waiting, running } of loads)
      jobs.set(tenant, (jobs.get(tenant) ?? 0) + waiting + running);
    const named = new Set(
      [...jobs]
        .toSorted(([, a], [, b]) => b - a)
        .slice(0, MOST_NAMED)
        .map(([tenant]) => tenant),
    );
    for (const { tenant: owner, waiting, running } of loads) {
      const tenant = named.has(owner) ? owner : OTHERS;
      this.#waiting.inc({ tenant }, waiting);
      this.#running.inc({ tenant }, running);
    }
  }
}

/** Counts how jobs ended. */
class JobMetrics {
  readonly #ended: Counter<'model' | 'end'>;
  readonly #failures: Counter<'model' | 'code'>;
  readonly #lostLocks: Counter<'model'>;
  readonly #audioSeconds: Counter<'model'>;
  readonly #wait: Histogram<'model'>;
  readonly #run: Histogram<'model'>;
  readonly #speed: Histogram<'model'>;

  constructor(make: Instruments) {
    this.#ended = make.counter(
      'wavepool_jobs_ended_total',
      'Jobs by how they ended.',
      'model',
      'end',
    );
    this.#failures = make.counter(
      'wavepool_failures_total',
      'Failed and cancelled jobs, by code of the error table.',
      'model',
      'code',
    );
    this.#lostLocks = make.counter(
      'wavepool_lost_locks_total',
      'Jobs that went back to the queue because their worker was gone or stood still.',
      'model',
    );
    this.#audioSeconds = make.counter(
      'wavepool_audio_seconds_total',
      'Audio of completed jobs.',
      'model',
    );
    this.#wait = make.histogram(
      'wavepool_job_wait_seconds',
      'From submission to the start of the attempt that completed.',
      SECONDS,
    );
    this.#run = make.histogram(
      'wavepool_job_run_seconds',
      'Duration of the attempt that completed.',
      SECONDS,
    );
    this.#speed = make.histogram(
      'wavepool_job_times_real_time',
      'Audio over running time of completed jobs.',
      TIMES_REAL_TIME,
    );
  }

  complete(model: string, { durationSeconds, timings }: JobOutcome): void {
    const runSeconds = timings.totalMs / 1_000;
    this.#ended.inc({ model, end: 'completed' });
    this.#audioSeconds.inc({ model }, durationSeconds);
    this.#wait.observe({ model }, timings.queuedMs / 1_000);
    this.#run.observe({ model }, runSeconds);
    if (runSeconds > 0) this.#speed.observe({ model }, durationSeconds / runSeconds);
  }

  fail(model: string, code: ErrorCode): void {
    this.#ended.inc({ model, end: code === 'CANCELLED' ? 'cancelled' : 'failed' });
    this.#failures.inc({ model, code });
  }

  loseLock(model: string): void {
    this.#lostLocks.inc({ model });
  }
}

/** Counts what the slots of all workers did. */
class BatchMetrics {
  readonly #sizes: Histogram<'model'>;
  readonly #busySeconds: Counter<'model'>;
  readonly #audioSeconds: Counter<'model'>;

  constructor(make: Instruments) {
    this.#sizes = make.histogram('wavepool_batch_size', 'Segments in a batch.', BATCH_SIZES);
    this.#busySeconds = make.counter(
      'wavepool_slot_busy_seconds_total',
      'Time in which slots ran batches.',
      'model',
    );
    this.#audioSeconds = make.counter(
      'wavepool_slot_audio_seconds_total',
      'Audio that slots have computed.',
      'model',
    );
  }

  add({ model, batchSizes, busySeconds, audioSeconds }: BatchProgress): void {
    for (const [at, batches] of batchSizes.entries())
      for (let count = 0; count < batches; count += 1) this.#sizes.observe({ model }, at + 1);
    this.#busySeconds.inc({ model }, busySeconds);
    this.#audioSeconds.inc({ model }, audioSeconds);
  }
}

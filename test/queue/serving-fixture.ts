/** Serves a real queue one job after another, each in no time, as a worker with so many places does. */
import { randomUUID } from 'node:crypto';
import { type Job, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import type { JobData, NewJob } from '../../src/core/job/job.ts';
import { queuePrefix } from '../../src/queue/redis/queue-names.ts';
import { FairShare } from '../../src/queue/tenants/fair-share.ts';
import { outcomeOf } from '../support/worker.ts';

export interface Served {
  readonly id: string;
  readonly tenant: string;
  /** How many jobs were served before. */
  readonly turn: number;
}

/** A share of the jobs that a worker lets in at their ends: windows need not be full at every moment. */
const FILL_EVERY = 50;

export class ServingWorker implements AsyncDisposable {
  readonly served: Served[] = [];
  readonly running = new Map<string, Job<JobData>>();
  readonly #worker: Worker<JobData>;
  readonly #share: FairShare;

  constructor(connection: Redis, queue: string) {
    this.#worker = new Worker<JobData>(queue, null, {
      connection,
      prefix: queuePrefix(connection),
      autorun: false,
    });
    this.#worker.on('error', () => undefined);
    this.#share = new FairShare(connection, queue);
  }

  /** The next job in its turn; undefined when none may run. */
  async take(): Promise<Job<JobData> | undefined> {
    const job = await this.#worker.getNextJob(randomUUID(), { block: false });
    if (job === undefined) return undefined;
    const id = String(job.id);
    this.served.push({ id, tenant: job.data.tenant, turn: this.served.length });
    this.running.set(id, job);
    return job;
  }

  async end(job: Job<JobData>): Promise<void> {
    await job.moveToCompleted(outcomeOf('r'), job.token ?? '', false);
    this.running.delete(String(job.id));
  }

  /** Ends what runs and lets the tenant's next jobs in. */
  async serve(turns: number): Promise<void> {
    for (let turn = 0; turn < turns; turn += 1) {
      const job = await this.take();
      if (job === undefined) return;
      await this.end(job);
      if (turn % FILL_EVERY === 0) await this.#share.settle('all');
    }
  }

  turnsOf(tenant: string): number[] {
    return this.served.filter((job) => job.tenant === tenant).map(({ turn }) => turn);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.close();
  }
}

export function jobsOf(tenant: string, count: number, more: Partial<NewJob> = {}): NewJob[] {
  return Array.from({ length: count }, () => ({
    input: { kind: 'path', path: '/audio/a.wav' },
    tenant,
    ...more,
  }));
}

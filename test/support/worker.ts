/** BullMQ workers for tests of the queue. */
import { randomUUID } from 'node:crypto';
import { type Job, type Processor, Worker } from 'bullmq';
import { toWavepoolError } from '../../src/core/errors.ts';
import { type JobData, JobOutcome, type ModelId } from '../../src/core/job/job.ts';
import { toQueueError } from '../../src/queue/jobs/failures.ts';
import { openConnection, type RedisAddress } from '../../src/queue/redis/connection.ts';
import { queueNameOf, queuePrefix } from '../../src/queue/redis/queue-names.ts';

export function outcomeOf(resultKey: string): JobOutcome {
  return {
    resultKey,
    durationSeconds: 1,
    speechSeconds: 1,
    segments: 1,
    characters: 5,
    noSpeech: false,
    warnings: [],
    timings: { queuedMs: 1, decodeMs: 1, vadMs: 1, asrMs: 1, totalMs: 4 },
  };
}

function open(address: RedisAddress, model: ModelId, processor: Processor | null) {
  const connection = openConnection(address, { role: 'patient', name: 'worker' });
  const worker = new Worker(queueNameOf(model), processor, {
    connection,
    prefix: queuePrefix(connection),
    maxStalledCount: 3,
  });
  worker.on('error', () => undefined);
  return {
    worker,
    [Symbol.asyncDispose]: async () => {
      await worker.close();
      connection.disconnect();
    },
  };
}

/** Runs jobs one at a time; what `run` throws is a failure as a real worker writes it, and an outcome may be returned. */
export function startWorker(
  address: RedisAddress,
  model: ModelId,
  run: (job: Job<JobData>, token: string) => unknown,
): AsyncDisposable {
  return open(address, model, async (job, token = '') => {
    try {
      const outcome = await run(job, token);
      return JobOutcome.safeParse(outcome).data ?? outcomeOf(`result-of-${job.id}`);
    } catch (error) {
      throw toQueueError(toWavepoolError(error));
    }
  });
}

/** As `startWorker`, for a `run` that says where it put the result. */
export function openWorker(
  address: RedisAddress,
  model: ModelId,
  run: (job: Job<JobData>) => Promise<string>,
): AsyncDisposable {
  return open(address, model, async (job) => {
    try {
      return outcomeOf(await run(job));
    } catch (error) {
      throw toQueueError(toWavepoolError(error));
    }
  });
}

export interface ManualWorker extends AsyncDisposable {
  /** Takes the next job under a token of its own, and keeps it. */
  take(): Promise<{ job: Job<JobData>; jobId: string; token: string }>;
}

/** Takes jobs and does nothing with them, like a worker that dies. */
export function startManualWorker(address: RedisAddress, model: ModelId): ManualWorker {
  const { worker, ...rest } = open(address, model, null);
  return {
    ...rest,
    take: async () => {
      const token = `${worker.id}:${randomUUID()}`;
      const job = await worker.getNextJob(token, { block: false });
      if (job?.id === undefined) throw new Error('no job is waiting');
      return { job, jobId: job.id, token };
    },
  };
}

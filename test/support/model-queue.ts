/** A model's queue as a real worker serves it, over a processor of the test's. */
import { createLogger } from '../../src/core/logger.ts';
import type { RedisAddress } from '../../src/queue/redis/connection.ts';
import { HeldJobs } from '../../src/worker/job/held-jobs.ts';
import type { JobAttempt, JobProcessor } from '../../src/worker/job/job-processor.ts';
import { ModelQueue } from '../../src/worker/job/model-queue.ts';
import { Quarantine } from '../../src/worker/job/quarantine.ts';
import { outcomeOf } from './worker.ts';

export async function startModelQueue(
  address: RedisAddress,
  model: string,
  concurrency: number,
  run: (attempt: JobAttempt) => Promise<void>,
): Promise<AsyncDisposable> {
  const processor: Pick<JobProcessor, 'process'> = {
    process: async (attempt) => {
      await run(attempt);
      return outcomeOf(`result-of-${attempt.jobId}`);
    },
  };
  const queue = await ModelQueue.open({
    address,
    model,
    // Nothing else of it is used by the queue.
    processor: processor as JobProcessor,
    held: new HeldJobs(() => undefined),
    quarantine: new Quarantine(),
    lockDurationMs: 30_000,
    stalledIntervalMs: 30_000,
    concurrency,
    longJobMs: 60_000,
    logger: createLogger('silent', 'test'),
  });
  queue.start();
  return { [Symbol.asyncDispose]: () => queue.close() };
}

/** Jobs are cancelled from another process, whatever they are doing. */
import type { CancelResult } from '../../src/queue/audio-queue.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { ensure, type Scenario, sumOf } from './scenario.ts';
import { CHAOS_MODEL, FaultBench } from './support/fault-bench.ts';
import { HANG_SECONDS } from './support/fault-plan.ts';

const CANCELLED = { code: 'CANCELLED' } as const;

/** Numbers in [0, 1) that follow from the seed. */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Resolves when the worker says of itself that no slot is taken and nothing waits. */
function idleWorker({ supervisor }: FaultBench): Promise<void> {
  return new Promise((resolve) => {
    supervisor.on('status', ({ status }) => {
      const busy = status.runtime.models.reduce(
        (sum, { activeSlots, queuedRequests, batches }) =>
          sum + activeSlots + queuedRequests + batches.runningItems,
        status.heldJobs,
      );
      if (busy === 0) resolve();
    });
  });
}

export const cancelEveryState: Scenario = {
  name: 'cancel-every-state',
  fault: 'jobs are cancelled while they wait, run, and have ended, and twice',
  run: async (context) => {
    const rounds = [];
    for (let time = 0; time < context.times; time += 1) {
      await using bench = await FaultBench.open(context, { batch: 2 });
      await using canceller = await AudioQueue.open({ address: bench.address, model: CHAOS_MODEL });
      const begun = bench.nextRun('job-0');
      const [running = ''] = await bench.add(1, { seconds: HANG_SECONDS, expected: [CANCELLED] });
      await begun;
      // Concurrency is bounded: the first of these are queued for the slot, the last wait in Redis.
      const waiting = await bench.add(context.jobs, { expected: [CANCELLED] });
      const left = await bench.add(2);
      const cancel = (id: string): Promise<CancelResult> => canceller.cancel(id);
      const told = await Promise.all(waiting.map(cancel));
      ensure(
        told.every((result) => result === 'cancelled' || result === 'requested'),
        `waiting jobs: ${told.join()}`,
      );
      await Promise.allSettled(waiting.map((id) => bench.queue.waitFor(id)));
      ensure((await bench.queue.get(running))?.state === 'running', 'it runs on');
      const atMs = performance.now();
      ensure((await cancel(running)) === 'requested', 'the running job was not asked to end');
      await cancel(running);
      await bench.allEnded();
      const again = await Promise.all([running, ...waiting, ...left].map(cancel));
      ensure(
        again.every((result) => result === 'finished'),
        `ended jobs: ${again.join()}`,
      );
      await idleWorker(bench);
      rounds.push(await bench.outcome(bench.recoveryAfter(atMs)));
    }
    return sumOf(rounds);
  },
};

export const cancelAtRandom: Scenario = {
  name: 'cancel-at-random',
  fault: 'random jobs are cancelled at random moments, some twice',
  run: async (context) => {
    const random = randomNumbers(context.seed);
    await using bench = await FaultBench.open(context, { batch: 4, paceMs: 2 });
    await using canceller = await AudioQueue.open({ address: bench.address, model: CHAOS_MODEL });
    for (let time = 0; time < context.times; time += 1) {
      const [victim = ''] = await bench.add(1, { orCode: 'CANCELLED' });
      const others = await bench.add(context.jobs - 1);
      // Before it is taken, while it runs, or after it has ended.
      const ends = Math.floor(random() * context.jobs);
      if (ends > 0) await Promise.race([bench.moreEnds(ends), bench.ends([victim, ...others])]);
      await canceller.cancel(victim);
      if (random() < 0.3) await canceller.cancel(victim);
      await bench.ends([victim, ...others]);
    }
    await idleWorker(bench);
    return await bench.outcome(null, context.times);
  },
};

export const CANCEL_SCENARIOS = [cancelEveryState, cancelAtRandom];

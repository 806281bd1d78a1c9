/** Time limits: each ends its jobs with its own code, and nobody else's. */
import { createLogger } from '../../src/core/logger.ts';
import { Housekeeping } from '../../src/worker/housekeeping/housekeeping.ts';
import { ensure, type Scenario } from './scenario.ts';
import { FaultBench } from './support/fault-bench.ts';
import { HANG_SECONDS } from './support/fault-plan.ts';

/** Of the job that holds the only slot. */
const HELD_MS = 3_000;
const PATIENCE_MS = 500;

export const timeLimits: Scenario = {
  name: 'time-limits',
  fault: `a job holds the only slot for its ${HELD_MS / 1_000} s`,
  run: async (context) => {
    await using bench = await FaultBench.open(context, { batch: 16 });
    const third = Math.max(1, Math.floor(context.jobs / 4));
    const running = bench.nextRun('job-0');
    await bench.add(1, {
      seconds: HANG_SECONDS,
      clocks: { timeoutMs: HELD_MS },
      expected: [{ code: 'JOB_TIMEOUT' }],
    });
    await running;
    const atMs = performance.now();
    // From here on: the first may have ended before the last has been added.
    const impatient = bench.moreEnds(3 * third);
    // Which of the two depends on whether they came before the holder was overdue for them.
    await bench.add(third, {
      clocks: { busyTimeoutMs: PATIENCE_MS },
      attempts: 1,
      expected: [{ code: 'BUSY_TIMEOUT' }, { code: 'BUSY_OVERDUE' }],
    });
    await bench.add(third, {
      clocks: { deadlineAt: Date.now() + PATIENCE_MS },
      expected: [{ code: 'DEADLINE_EXCEEDED' }],
    });
    await bench.add(third, {
      clocks: { deadlineAt: Date.now() - 1 },
      expected: [{ code: 'DEADLINE_EXCEEDED' }],
    });
    // These wait as long as it takes.
    await bench.add(third);
    await impatient;
    ensure(performance.now() - atMs < HELD_MS, 'those without patience had to wait for the slot');
    await bench.add(third, {
      clocks: { busyTimeoutMs: PATIENCE_MS },
      attempts: 1,
      expected: [{ code: 'BUSY_OVERDUE' }],
    });
    await bench.allEnded();
    return await bench.outcome(bench.recoveryAfter(atMs + HELD_MS));
  },
};

export const deadlineWithoutWorker: Scenario = {
  name: 'deadline-without-worker',
  fault: 'a deadline passes while no worker is alive',
  run: async (context) => {
    const { jobs } = context;
    await using bench = await FaultBench.open(context, { workers: 0 });
    const { address } = bench;
    const logger = createLogger('silent', 'chaos');
    await using _one = await Housekeeping.start({ address, logger });
    await using _another = await Housekeeping.start({ address, logger });
    const deadlineAt = Date.now() + PATIENCE_MS;
    await bench.add(jobs, {
      clocks: { deadlineAt },
      expected: [{ code: 'DEADLINE_EXCEEDED' }],
    });
    const passedAt = performance.now() + deadlineAt - Date.now();
    await bench.allEnded();
    ensure(Date.now() >= deadlineAt, 'jobs failed before their deadline');
    return await bench.outcome(bench.recoveryAfter(passedAt));
  },
};

export const CLOCK_SCENARIOS = [timeLimits, deadlineWithoutWorker];

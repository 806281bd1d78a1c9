/** Workers are told to end, one way or another, while there is work. */
import { once } from 'node:events';
import { bullKey } from '../../src/queue/redis/queue-names.ts';
import { startSupervisor } from './crash-scenarios.ts';
import { ensure, type Scenario, sumOf } from './scenario.ts';
import { CHAOS_MODEL, FaultBench } from './support/fault-bench.ts';

export const rollingRestart: Scenario = {
  name: 'rolling-restart',
  fault: 'all workers are replaced under load',
  run: async (context) => {
    const { jobs, times } = context;
    await using bench = await FaultBench.open(context, { workers: 0, paceMs: 20 });
    let current = await startSupervisor(bench, context);
    await bench.add(jobs);
    let slowestMs = 0;
    for (let time = 1; time <= times; time += 1) {
      await bench.until(() => bench.ended >= (jobs * time) / (times + 2));
      const next = await startSupervisor(bench, context);
      current.child.kill('SIGTERM');
      const toldAt = performance.now();
      const [code] = await once(current.child, 'exit');
      ensure(code === 0, `a supervisor ended with ${String(code)}`);
      slowestMs = Math.max(slowestMs, bench.recoveryAfter(toldAt) ?? 0);
      current = next;
    }
    await bench.allEnded();
    current.child.kill('SIGTERM');
    await once(current.child, 'exit');
    await ensureUncharged(bench);
    return await bench.outcome(slowestMs, times);
  },
};

/** No end of a worker that somebody wanted is charged to its jobs. */
async function ensureUncharged({ ledger, queue, redis }: FaultBench): Promise<void> {
  for (const id of ledger.ids) {
    const [stalls] = await redis.connection.hmget(
      bullKey(redis.connection, CHAOS_MODEL, id),
      'stc',
    );
    ensure(Number(stalls ?? 0) === 0, `${id} has ${stalls} stalls on its count`);
    const view = await queue.get(id);
    ensure(view?.data.crashCount === 0, `${id} has ${view?.data.crashCount} crashes on its count`);
    const most = view.state === 'completed' ? 1 : 0;
    ensure(view.attemptsMade === most, `${id} has made ${view.attemptsMade} attempts`);
  }
}

const DRAIN_MS = 300;
/** Of a batch: longer than the drain. */
const SLOW_MS = 2_500;

export const drainDeadline: Scenario = {
  name: 'drain-deadline',
  fault: `workers are told to end, and get ${DRAIN_MS} ms for it`,
  run: async (context) => {
    const rounds = [];
    for (let time = 0; time < context.times; time += 1) {
      await using bench = await FaultBench.open(context, {
        workers: 0,
        batch: 2,
        paceMs: SLOW_MS,
      });
      const first = await startSupervisor(bench, context, { drainMs: DRAIN_MS });
      const running = bench.nextRun();
      await bench.add(context.jobs);
      await running;
      first.child.kill('SIGTERM');
      const [code] = await once(first.child, 'exit');
      ensure(code === 0, `the supervisor ended with ${String(code)}`);
      const { waiting, running: held } = await bench.queue.counts();
      ensure(held === 0, `${held} jobs belong to a worker that is gone`);
      ensure(waiting > 0, 'nothing was handed back');
      await ensureUncharged(bench);
      const second = await startSupervisor(bench, context);
      const overAt = performance.now();
      await bench.allEnded();
      second.child.kill('SIGTERM');
      await once(second.child, 'exit');
      await ensureUncharged(bench);
      rounds.push(await bench.outcome(bench.recoveryAfter(overAt)));
    }
    return sumOf(rounds);
  },
};

export const secondSignal: Scenario = {
  name: 'second-signal',
  fault: 'running workers are ended at once, and started again, three times over',
  run: async (context) => {
    const { jobs, times } = context;
    await using bench = await FaultBench.open(context, { workers: 0, batch: 2, paceMs: SLOW_MS });
    await bench.add(jobs);
    // More often than a job may crash: ending on purpose is no crash.
    for (let round = 0; round < Math.max(3, times); round += 1) {
      const running = bench.nextRun();
      const { child } = await startSupervisor(bench, context);
      await running;
      child.kill('SIGINT');
      const [code] = await once(child, 'exit');
      ensure(code === 130, `the supervisor ended with ${String(code)}`);
    }
    await ensureUncharged(bench);
    const { child } = await startSupervisor(bench, context);
    const overAt = performance.now();
    await bench.allEnded();
    child.kill('SIGTERM');
    await once(child, 'exit');
    await ensureUncharged(bench);
    return await bench.outcome(bench.recoveryAfter(overAt), Math.max(3, times));
  },
};

export const SHUTDOWN_SCENARIOS = [rollingRestart, drainDeadline, secondSignal];

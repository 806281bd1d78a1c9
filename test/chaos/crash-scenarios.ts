/** Worker processes die: of their own native code, of a signal, or with the whole machine. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WorkerCrash } from '../../src/worker/supervisor/supervisor.ts';
import { signalProcess } from '../support/process-table.ts';
import { ensure, type Scenario, type ScenarioContext, sumOf } from './scenario.ts';
import { FaultBench } from './support/fault-bench.ts';
import { ABORT_SECONDS, HANG_SECONDS } from './support/fault-plan.ts';
import type { SupervisorTask } from './support/supervisor-program.ts';

const CRASHED = [{ code: 'WORKER_CRASHED' }] as const;

/** Deaths of workers, as the supervisor tells them. */
function crashesOf({ supervisor }: FaultBench): (WorkerCrash & { readonly atMs: number })[] {
  const crashes: (WorkerCrash & { readonly atMs: number })[] = [];
  supervisor.on('crash', (crash) => crashes.push({ ...crash, atMs: performance.now() }));
  return crashes;
}

/** One poisonous job among innocent ones: it takes its worker along twice, and nobody else. */
async function poison(context: ScenarioContext, seconds: number, hangLimitMs: number) {
  await using bench = await FaultBench.open(context, { settings: { hangLimitMs } });
  const crashes = crashesOf(bench);
  const before = Math.ceil(context.jobs / 2);
  await bench.add(before);
  for (let time = 0; time < context.times; time += 1) {
    await bench.add(1, { seconds, expected: CRASHED });
  }
  await bench.add(context.jobs - before);
  await bench.allEnded();
  const least = context.times + 1;
  // A job may end while its worker's death is still being told.
  while (crashes.length < least) await once(bench.supervisor, 'crash');
  const causes = new Set(crashes.map(({ signal }) => signal));
  const cause = seconds === ABORT_SECONDS ? 'SIGABRT' : 'SIGKILL';
  ensure(causes.size === 1 && causes.has(cause), `workers died of ${[...causes].join(', ')}`);
  ensure(crashes.length <= 2 * context.times, `${crashes.length} crashes`);
  const recoveries = crashes.flatMap(({ atMs }) => bench.recoveryAfter(atMs) ?? []);
  return await bench.outcome(Math.max(...recoveries), crashes.length);
}

export const nativeAbort: Scenario = {
  name: 'native-abort',
  fault: 'native code aborts inside a batch',
  run: (context) => poison(context, ABORT_SECONDS, 0),
};

const HANG_LIMIT_MS = 4_000;

export const nativeHang: Scenario = {
  name: 'native-hang',
  fault: `native code never returns (hang limit ${HANG_LIMIT_MS / 1_000} s)`,
  run: (context) => poison(context, HANG_SECONDS, HANG_LIMIT_MS),
};

export const workerKilled: Scenario = {
  name: 'worker-killed',
  fault: 'kill -9 of a worker',
  run: async (context) => {
    const { jobs, times } = context;
    await using bench = await FaultBench.open(context, { paceMs: 20, workers: 2 });
    const crashes = crashesOf(bench);
    await bench.add(jobs);
    for (let time = 1; time <= times; time += 1) {
      await bench.until(() => bench.ended >= (jobs * time) / (times + 1));
      const victim = await bench.liveWorker();
      const died = once(bench.supervisor, 'crash');
      signalProcess(victim, 'SIGKILL');
      await died;
    }
    await bench.allEnded();
    const recoveries = crashes.flatMap(({ atMs }) => bench.recoveryAfter(atMs) ?? []);
    return await bench.outcome(Math.max(...recoveries), times);
  },
};

/** Starts a supervisor with workers in a process of its own; resolves when they take jobs. */
export async function startSupervisor(
  bench: FaultBench,
  { programs }: ScenarioContext,
  { workers = 1, drainMs = 600_000 } = {},
): Promise<{ child: ChildProcess; pids: readonly number[] }> {
  const { settings } = bench;
  const task: SupervisorTask = { settings, workers, workerScript: programs.worker, drainMs };
  const file = join(bench.folder, 'supervisor-task.json');
  writeFileSync(file, JSON.stringify(task));
  const child = fork(programs.supervisor, [file]);
  const [ready]: unknown[] = await once(child, 'message');
  return { child, pids: (ready as { readonly pids: readonly number[] }).pids };
}

/** BullMQ's own stall check is what is left then; it is made quick here. */
const LOCK_MS = 2_000;
const STALL_CHECK_MS = 1_000;

export const machineLost: Scenario = {
  name: 'machine-lost',
  fault: 'kill -9 of supervisor and workers together',
  run: async (context) => {
    const rounds = [];
    for (let time = 0; time < context.times; time += 1) rounds.push(await loseMachine(context));
    return sumOf(rounds);
  },
};

async function loseMachine(context: ScenarioContext) {
  await using bench = await FaultBench.open(context, {
    workers: 0,
    paceMs: 50,
    settings: { lockDurationMs: LOCK_MS, stalledIntervalMs: STALL_CHECK_MS },
  });
  const first = await startSupervisor(bench, context);
  const one = bench.moreEnds(1);
  await bench.add(context.jobs);
  await one;
  const lostAt = performance.now();
  // The supervisor first: it must not get to hand anything back.
  first.child.kill('SIGKILL');
  for (const pid of first.pids) signalProcess(pid, 'SIGKILL');
  const second = await startSupervisor(bench, context);
  await bench.allEnded();
  second.child.kill('SIGTERM');
  await once(second.child, 'exit');
  return await bench.outcome(bench.recoveryAfter(lostAt + LOCK_MS));
}

export const CRASH_SCENARIOS = [nativeAbort, nativeHang, workerKilled, machineLost];

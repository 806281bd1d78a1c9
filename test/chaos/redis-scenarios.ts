/** Redis goes away, comes back, has no room, is slow; and a worker that cannot keep its locks. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { WavepoolError } from '../../src/core/errors.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { ensure, type Scenario, type ScenarioContext } from './scenario.ts';
import { CHAOS_MODEL, FaultBench } from './support/fault-bench.ts';
import { BLOCK_SECONDS, recognizedBy } from './support/fault-plan.ts';
import { startProxy } from './support/socket-proxy.ts';

const STOPPED_MS = 10_000;
const PACE_MS = 40;
/** Short locks: a job whose end Redis did not take is found again by the stall check. */
const SHORT_LOCKS = { lockDurationMs: 3_000, stalledIntervalMs: 1_000 };

/** Adds the jobs in as many parts as there are faults, and causes one in the middle of each. */
async function disturb(
  context: ScenarioContext,
  bench: FaultBench,
  fault: () => Promise<void>,
): Promise<number> {
  let slowestMs = 0;
  for (let time = 0; time < context.times; time += 1) {
    const part = Math.ceil(context.jobs / context.times);
    const some = bench.moreEnds(Math.ceil(part / 4));
    await bench.add(part);
    await some;
    await fault();
    const overAt = performance.now();
    await bench.nextEnd();
    slowestMs = Math.max(slowestMs, bench.recoveryAfter(overAt) ?? 0);
  }
  await bench.allEnded();
  return slowestMs;
}

/** What a caller is told who does not wait. */
async function codeOfAdding(bench: FaultBench): Promise<string> {
  const id = 'refused';
  // Taken as long as the fault has not come.
  bench.ledger.ignore(id);
  try {
    await using queue = await AudioQueue.open({ address: bench.address, model: CHAOS_MODEL });
    await queue.add({ id, input: { kind: 'path', path: '/nowhere.wav' } });
    return 'nothing';
  } catch (error) {
    return error instanceof WavepoolError ? error.code : String(error);
  }
}

/** Each job is one segment here, and no lock ran out. */
function ensureNothingRepeated({ folder, ledger }: FaultBench): void {
  const recognized = [...recognizedBy(folder).values()].reduce((sum, each) => sum + each, 0);
  const jobs = ledger.ids.length;
  ensure(recognized === jobs, `${recognized} segments of ${jobs} jobs were recognized`);
}

export const redisStopped: Scenario = {
  name: 'redis-stopped',
  fault: `Redis stopped for ${STOPPED_MS / 1_000} s`,
  run: async (context) => {
    await using bench = await FaultBench.open(context, { paceMs: PACE_MS, notes: true });
    const recoveryMs = await disturb(context, bench, async () => {
      bench.redis.pause();
      const stopped = delay(STOPPED_MS);
      const code = await codeOfAdding(bench);
      await stopped;
      bench.redis.resume();
      ensure(code === 'REDIS_UNAVAILABLE', `whoever does not wait was told ${code}`);
    });
    ensureNothingRepeated(bench);
    return await bench.outcome(recoveryMs, context.times);
  },
};

export const redisKilled: Scenario = {
  name: 'redis-killed',
  fault: 'kill -9 of Redis, restarted on its append-only file',
  run: async (context) => {
    await using bench = await FaultBench.open(context, { paceMs: PACE_MS, notes: true });
    let stalls = 0;
    bench.queue.on('stalled', () => {
      stalls += 1;
    });
    const recoveryMs = await disturb(context, bench, async () => {
      await bench.redis.kill();
      const code = await codeOfAdding(bench);
      await bench.redis.restart();
      ensure(code === 'REDIS_UNAVAILABLE', `whoever does not wait was told ${code}`);
    });
    // A job that was taken while the answer was lost is given back by its worker, long before its lock runs out.
    ensure(stalls === 0, `${stalls} jobs were left to the stall check`);
    ensureNothingRepeated(bench);
    return await bench.outcome(recoveryMs, context.times);
  },
};

const NO_ROOM_MS = 3_000;

export const redisOutOfMemory: Scenario = {
  name: 'redis-out-of-memory',
  fault: 'Redis at its maxmemory',
  run: async (context) => {
    await using bench = await FaultBench.open(context, { paceMs: PACE_MS, settings: SHORT_LOCKS });
    const recoveryMs = await disturb(context, bench, async () => {
      await bench.redis.configure('maxmemory', '1');
      const code = await codeOfAdding(bench);
      await delay(NO_ROOM_MS);
      await bench.redis.configure('maxmemory', '0');
      ensure(code === 'REDIS_FULL', `whoever adds was told ${code}`);
    });
    return await bench.outcome(recoveryMs, context.times);
  },
};

const DISK_MEGABYTES = 4;

/** Whether this process may mount a small disk. */
export function canMount(): boolean {
  const folder = join('/tmp', `wavepool-mount-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder], { stdio: 'ignore' });
    execFileSync('umount', [folder], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** `always`: the server ends rather than confirm what it cannot write. `everysec`: it stays and refuses. */
type Fsync = 'always' | 'everysec';
const TOLD_WHEN_FULL = { always: 'REDIS_UNAVAILABLE', everysec: 'REDIS_FULL' } as const;

function diskFull(name: string, fsync: Fsync): Scenario {
  return {
    name,
    fault: `the disk of the append-only file is full, appendfsync ${fsync}`,
    run: async (context) => {
      const disk = join('/tmp', `wavepool-disk-${process.pid}-${performance.now()}`);
      mkdirSync(disk);
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MEGABYTES}m`, 'tmpfs', disk]);
      try {
        return await fillDisk(context, disk, fsync);
      } finally {
        execFileSync('umount', ['-l', disk]);
        rmSync(disk, { recursive: true, force: true });
      }
    },
  };
}

async function fillDisk(context: ScenarioContext, disk: string, fsync: Fsync) {
  await using bench = await FaultBench.open(context, {
    paceMs: PACE_MS,
    settings: SHORT_LOCKS,
    redis: {
      dataDir: join(disk, 'redis'),
      settings: { appendfsync: fsync },
      lookAfter: fsync === 'always',
    },
  });
  const ballast = join(disk, 'ballast');
  const recoveryMs = await disturb(context, bench, async () => {
    try {
      writeFileSync(ballast, Buffer.alloc(DISK_MEGABYTES * 2 ** 20));
    } catch {
      // Full, as it should be.
    }
    let code = '';
    const until = performance.now() + 10_000;
    // Redis notices with its next write.
    while (code !== TOLD_WHEN_FULL[fsync] && performance.now() < until)
      code = await codeOfAdding(bench);
    await delay(NO_ROOM_MS);
    rmSync(ballast);
    ensure(code === TOLD_WHEN_FULL[fsync], `whoever adds was told ${code}`);
  });
  return await bench.outcome(recoveryMs, context.times);
}

export const redisDiskFull = diskFull('redis-disk-full', 'always');
export const redisDiskFullEverysec = diskFull('redis-disk-full-everysec', 'everysec');

const LATENCY_MS = 50;

export const redisSlow: Scenario = {
  name: 'redis-slow',
  fault: `every word to and from Redis takes ${LATENCY_MS} ms`,
  run: async (context) => {
    await using bench = await FaultBench.open(context, {
      through: (folder, socket) => startProxy(folder, socket, { delayMs: LATENCY_MS }),
    });
    await bench.add(context.jobs);
    await bench.allEnded();
    return await bench.outcome(null);
  },
};

const LOCK_MS = 2_000;
const BLOCKED_MS = 6_000;

export const lockLost: Scenario = {
  name: 'lock-lost',
  fault: `a worker's event loop stands still for ${BLOCKED_MS / LOCK_MS} lock durations`,
  run: async (context) => {
    const { jobs } = context;
    await using bench = await FaultBench.open(context, {
      workers: 2,
      blockMs: BLOCKED_MS,
      settings: { lockDurationMs: LOCK_MS, stalledIntervalMs: 500 },
    });
    let stalls = 0;
    bench.queue.on('stalled', () => {
      stalls += 1;
    });
    await bench.add(1, { seconds: BLOCK_SECONDS });
    await bench.add(jobs - 1);
    const beganAt = performance.now();
    await bench.allEnded();
    const recoveryMs = Math.round(performance.now() - beganAt - LOCK_MS);
    // The one that stood still has to have its say, too: its attempts must come to nothing.
    await bench.supervisor.close({ deadlineMs: BLOCKED_MS });
    ensure(stalls > 0, 'no lock was lost');
    return await bench.outcome(recoveryMs);
  },
};

export const REDIS_SCENARIOS = [
  redisStopped,
  redisKilled,
  redisOutOfMemory,
  redisDiskFull,
  redisDiskFullEverysec,
  redisSlow,
  lockLost,
];

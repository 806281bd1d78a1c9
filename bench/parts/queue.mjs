/**
 * The queue without audio: jobs that take no time, with one progress event each. Our worker's machinery beside a bare BullMQ
 * worker on the same Redis (private, durable as in production), and what it adds when each job commits a result. Then what
 * adding and taking a job costs by the number of jobs that wait, and what a second worker process brings.
 */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { readConfig } from '../../dist/src/core/config.js';
import { AudioQueue } from '../../dist/src/queue/audio-queue.js';
import { prepareJob } from '../../dist/src/queue/jobs/prepared-job.js';
import { openConnection } from '../../dist/src/queue/redis/connection.js';
import { EmbeddedRedis } from '../../dist/src/queue/redis/embedded-redis.js';
import { bullKey, queueNameOf, queuePrefix } from '../../dist/src/queue/redis/queue-names.js';
import { NodeProgram } from '../node-program.mjs';
import { interleave, median, ratios } from '../rounds.mjs';
import { figure, number, ratioRange, table } from '../tables.mjs';

const CONCURRENCY = 50;
const CHUNK = 1_000;
/** Adding jobs one after the other, as a client does. */
const ADDS = 200;
const REWRITE_LOOK_MS = 10;

class Bench {
  #folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'wavepool-bench-')));
  #redis;
  #observer;
  #queues = 0;

  static async open() {
    const bench = new Bench();
    const dataDir = bench.#folder;
    const places = { dataDir, runtimeDirs: [path.join(dataDir, 'run')] };
    bench.#redis = await EmbeddedRedis.acquire({ ...readConfig(), ...places });
    bench.#observer = openConnection(bench.address, { role: 'patient', name: 'observer' });
    // It would fall into somebody's time.
    await bench.#observer.config('SET', 'auto-aof-rewrite-percentage', '0');
    return bench;
  }

  /** As on the first day: what earlier runs left costs the later ones nothing. */
  async clear() {
    await this.#observer.flushall();
    await this.#observer.bgrewriteaof();
    while (/aof_rewrite_(in_progress|scheduled):1/.test(await this.#observer.info('persistence'))) {
      await delay(REWRITE_LOOK_MS);
    }
  }

  get address() {
    return this.#redis.address;
  }

  /** CPU seconds of the thread that runs the commands, so far; writing and syncing its file is done by others. */
  async redisCpuSeconds() {
    const info = await this.#observer.info('cpu');
    const fields = info.matchAll(/^used_cpu_(?:user|sys)_main_thread:([\d.]+)/gm);
    return [...fields].reduce((sum, [, seconds]) => sum + Number(seconds), 0);
  }

  /** Jobs of a queue that have ended well. */
  completed(queue) {
    return this.#observer.zcard(bullKey(this.#observer, queueNameOf(queue.model), 'completed'));
  }

  /** A queue of its own, with jobs that wait. */
  async queueWith(jobs) {
    const queue = await AudioQueue.open({ address: this.address, model: this.#nextName() });
    await inChunks(jobs, (chunk) => queue.addMany(chunk));
    return queue;
  }

  /** The same jobs as BullMQ has them by itself: in one line, without tenants. */
  async bareQueueWith(jobs) {
    const model = this.#nextName();
    const connection = openConnection(this.address, { role: 'patient', name: 'bare' });
    const queue = new Queue(model, { connection, prefix: queuePrefix(connection) });
    await inChunks(jobs, (chunk) =>
      queue.addBulk(
        chunk.map((job) => {
          const { name, data, opts } = prepareJob(job, { model, submittedAt: Date.now() });
          const { priority: _, ...rest } = opts;
          return { name, data, opts: rest };
        }),
      ),
    );
    const close = async () => {
      await queue.close();
      connection.disconnect();
    };
    return { model, close };
  }

  #nextName() {
    this.#queues += 1;
    return `bench-${this.#queues}`;
  }

  /** A worker that has connected and takes nothing yet. */
  async worker(kind, queue, jobs) {
    const settings = {
      ...{ address: this.address, model: queue.model, concurrency: CONCURRENCY, kind, jobs },
      resultsDir: path.join(this.#folder, 'results'),
    };
    const program = new NodeProgram('./queue-process.mjs', { args: [JSON.stringify(settings)] });
    await program.hear('ready');
    return program;
  }

  async close() {
    this.#observer.disconnect();
    await this.#redis.release();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function inChunks(jobs, add) {
  for (let start = 0; start < jobs; start += CHUNK) {
    const count = Math.min(CHUNK, jobs - start);
    await add(
      Array.from({ length: count }, (_, index) => ({
        input: { kind: 'path', path: `/audio/clip-${start + index}.wav` },
      })),
    );
  }
}

/**
 * Seconds from the first job taken to the last one ended, by workers that share them, and the CPU seconds per job of the
 * workers and of Redis.
 */
async function drain(bench, kind, jobs, { processes = 1, waiting = jobs } = {}) {
  await bench.clear();
  const queue = await (kind === 'bare' ? bench.bareQueueWith(waiting) : bench.queueWith(waiting));
  // Only workers use Redis while time is taken.
  await queue.close();
  const share = Math.floor(jobs / processes);
  const workers = await Promise.all(
    Array.from({ length: processes }, () => bench.worker(kind, queue, share)),
  );
  const ends = workers.map((worker) => worker.hear('done'));
  const redisBefore = await bench.redisCpuSeconds();
  for (const worker of workers) worker.send({ type: 'go' });
  const done = await Promise.all(ends);
  const redisCpuSeconds = (await bench.redisCpuSeconds()) - redisBefore;
  // Who has ended its share goes on while others end theirs.
  const completed = await bench.completed(queue);
  await Promise.all(workers.map((worker) => worker.stop()));
  const workerCpuSeconds = done.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0);
  return {
    seconds: Math.max(...done.map(({ seconds }) => seconds)),
    workerCpuPerJob: workerCpuSeconds / (share * processes),
    redisCpuPerJob: redisCpuSeconds / completed,
  };
}

/** Medians of what is measured besides the time. */
function cpuOf(runs) {
  const middle = (name) => median(runs.map((run) => run[name]));
  return { workerCpuPerJob: middle('workerCpuPerJob'), redisCpuPerJob: middle('redisCpuPerJob') };
}

const KINDS = [
  { name: 'Wavepool’s worker', kind: 'ours' },
  { name: 'bare BullMQ worker', kind: 'bare' },
  { name: 'Wavepool’s worker, each job commits a result', kind: 'commit' },
];

export const queue = {
  name: 'queue',
  title: `Jobs that take no time, concurrency ${CONCURRENCY}`,
  share: 1,
  settings: (seconds, { files }) => {
    return { jobs: files ?? Math.round(Math.min(20_000, Math.max(1_000, seconds * 100))) };
  },
  // A second for each process; jobs are added at 7,000 per second and end at 4,000, with results at 1,000.
  estimate: ({ jobs }) =>
    3 * KINDS.length * (1 + jobs / 7_000) + 3 * jobs * (2 / 4_000 + 1 / 1_000),
  async measure({ jobs }, { limits }) {
    const bench = await Bench.open();
    const runs = KINDS.map(() => []);
    const contestants = KINDS.map(({ name, kind }, at) => {
      const run = async () => {
        const cost = await drain(bench, kind, jobs);
        runs[at].push(cost);
        return cost;
      };
      return { name, kind, run };
    });
    try {
      const results = await interleave(contestants, { ...limits, atLeast: limits.rounds ?? 3 });
      const kinds = results.map(({ found: _, ...facts }, at) => ({ ...facts, ...cpuOf(runs[at]) }));
      return { jobs, kinds };
    } finally {
      await bench.close();
    }
  },
  document({ data: { jobs, kinds } }) {
    const [ours, bare, commit] = kinds;
    const head = [
      'Worker',
      'Jobs per second',
      'Ratio to the bare worker',
      'ms per job',
      'CPU ms per job, worker process',
      'CPU ms per job, Redis',
      'Rounds',
    ];
    const rows = [bare, ours, commit].map((each) => [
      each.name,
      number(jobs / figure(each, 'seconds')),
      each === bare ? '' : ratioRange(ratios(each, bare)),
      number((1_000 * figure(each, 'seconds')) / jobs),
      number(1_000 * each.workerCpuPerJob),
      number(1_000 * each.redisCpuPerJob),
      String(each.rounds.length),
    ]);
    const added = figure(commit, 'seconds') - figure(ours, 'seconds');
    const cost = `Committing a result adds ${number((1_000 * added) / jobs)} ms per job.`;
    return {
      lines: [`${jobs} jobs in one queue. ${cost}`, '', ...table(head, rows)],
      charts: {
        queue: {
          title: this.title,
          subtitle: 'Jobs per second; longer is faster',
          groups: [
            {
              bars: [ours, bare, commit].map((each) => {
                const value = jobs / figure(each, 'seconds');
                const shown = `${number(value)}/s`;
                const label = each.name.replace(', each job', ':').replace('commits', 'commit');
                return { label, value, shown, ours: each !== bare };
              }),
            },
          ],
        },
      },
    };
  },
};

/** The part of the time in which Redis had commands to run and a core to run them on. */
function percentBusy({ jobsPerSecond, redisCpuPerJob }) {
  return redisCpuPerJob === undefined
    ? '–'
    : `${Math.round(100 * jobsPerSecond * redisCpuPerJob)} %`;
}

/** Median milliseconds of one `add` to a queue in which so many jobs wait. */
async function timeAdds(bench, waiting) {
  const filled = await bench.queueWith(waiting);
  const taken = [];
  for (let at = 0; at < ADDS; at += 1) {
    const startedAt = performance.now();
    await filled.add({ input: { kind: 'path', path: `/audio/late-${at}.wav` } });
    taken.push(performance.now() - startedAt);
  }
  await filled.close();
  return median(taken);
}

export const queueLength = {
  name: 'queue-scaling',
  title: 'The queue by its length and by worker processes',
  share: 1,
  settings: (seconds) => {
    const longest = seconds >= 40 ? 100_000 : 10_000;
    return { waiting: [1, 1_000, longest], jobs: 1_000, processes: [1, 2], each: 3_000 };
  },
  estimate: ({ waiting, jobs, processes, each }) =>
    waiting.reduce((sum, length) => sum + 2 * (1 + (length + jobs) / 7_000), 0) +
    3 *
      processes.reduce(
        (sum, count) => sum + 2 + (3 * count * each) / 7_000 + (count * each) / 4_000,
        0,
      ),
  async measure({ waiting, jobs, processes, each }) {
    const bench = await Bench.open();
    try {
      const byLength = [];
      for (const length of waiting) {
        console.log(`  ${length} waiting jobs`);
        const addMs = await timeAdds(bench, length);
        // As many more as are measured, so that so many wait until the end.
        const { seconds } = await drain(bench, 'ours', jobs, { waiting: length + jobs });
        byLength.push({ waiting: length, addMs, takeMs: (1_000 * seconds) / jobs });
      }
      const byProcesses = [];
      for (const count of processes) {
        console.log(`  ${count} worker processes`);
        // As many for each process, so that starting up weighs the same; however unevenly they share, each finds them.
        const options = { processes: count, waiting: 3 * count * each };
        const runs = [];
        for (let round = 0; round < 3; round += 1) {
          runs.push(await drain(bench, 'ours', count * each, options));
        }
        const seconds = median(runs.map((run) => run.seconds));
        const jobsPerSecond = (count * each) / seconds;
        byProcesses.push({ ...options, jobsPerSecond, ...cpuOf(runs) });
      }
      return { byLength, byProcesses };
    } finally {
      await bench.close();
    }
  },
  document({ data: { byLength, byProcesses } }) {
    const lengths = byLength.map(({ waiting, addMs, takeMs }) => [
      waiting.toLocaleString('en-US'),
      number(addMs),
      number(takeMs),
    ]);
    const workers = byProcesses.map((each) => [
      String(each.processes),
      each.waiting?.toLocaleString('en-US') ?? '–',
      number(each.jobsPerSecond),
      number(1_000 * each.workerCpuPerJob),
      number(1_000 * each.redisCpuPerJob),
      percentBusy(each),
    ]);
    const byWorkers = [
      'Worker processes',
      'Waiting jobs',
      'Jobs per second',
      'CPU ms per job, workers',
      'CPU ms per job, Redis',
      'Redis busy',
    ];
    return {
      lines: [
        `Jobs are added one at a time, each after the one before is confirmed. Taking covers a whole job, from the queue to its end, ${CONCURRENCY} at once.`,
        '',
        ...table(['Waiting jobs', 'Adding one, ms', 'Taking and ending one, ms'], lengths),
        '',
        'Redis runs its commands in one thread. A second worker can use only what is left of that thread, and needs a free core.',
        '',
        ...table(byWorkers, workers),
      ],
      charts: {},
    };
  },
};

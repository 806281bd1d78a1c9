/** A long time of mixed work and faults: nothing lost, and nothing left behind or growing. */
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { bullKey } from '../../src/queue/redis/queue-names.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { randomFrom } from '../support/json-mutator.ts';
import { signalProcess } from '../support/process-table.ts';
import { ensure, type ScenarioContext, type ScenarioOutcome } from './scenario.ts';
import { FaultBench } from './support/fault-bench.ts';
import { PLAIN_SECONDS } from './support/fault-plan.ts';

export interface SoakResult extends ScenarioOutcome {
  readonly minutes: number;
  /** How often each was caused. */
  readonly faults: Readonly<Record<string, number>>;
  /** Jobs that were left to the stall check. */
  readonly stalls: number;
  /** Of the worker process that lived from the start to the end, in MiB: medians of the second and the last quarter. */
  readonly memoryBefore: number;
  readonly memoryAfter: number;
  /** Open files of that process. */
  readonly filesBefore: number;
  readonly filesAfter: number;
  /** Memory of the process that keeps the account. */
  readonly checkerBefore: number;
  readonly checkerAfter: number;
}

interface Look {
  readonly memory: number;
  readonly files: number;
}

interface Sample extends Look {
  readonly checker: number;
}

/** Whole windows of the detector, none longer than a segment. */
const LENGTHS = [0.512, PLAIN_SECONDS, 1.536, 5.12, 10.24, 20.48];
const MOST_OUTSTANDING = 40;
const MODELS = 2;
/** A job in many has no time to run. */
const SHORT_TIMEOUT_MS = 1;
/** A process, or Redis, is stopped for so long: below what a lock lasts. */
const FREEZE_MS = 500;
/** Well below what an event stream keeps, and what Redis keeps of ended jobs. */
const ROUNDS_BETWEEN_ACCOUNTS = 20;
/** Faults, and how many of a thousand rounds have each. */
const FAULTS = { cancel: 100, kill: 60, freeze: 20, stopRedis: 5, killRedis: 5 } as const;
type Fault = keyof typeof FAULTS;
const AN_HOUR_MS = 3_600_001;
const MEMORY_TOLERANCE = 0.1;
/** Sockets and pipes come and go. */
const FILES_TOLERANCE = 4;

function look(pid: number): Look {
  const [, kilobytes = '0'] =
    /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return { memory: Number(kilobytes) / 1_024, files: readdirSync(`/proc/${pid}/fd`).length };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

class Soak {
  readonly #bench: FaultBench;
  readonly #random: () => number;
  /** Never killed. */
  readonly #survivor: number;
  readonly samples: Sample[] = [];
  readonly faults = new Map<Fault | 'timeout', number>();
  #rounds = 0;

  constructor(bench: FaultBench, seed: number) {
    this.#bench = bench;
    this.#random = randomFrom(seed);
    this.#survivor = bench.supervisor.pids[0] ?? 0;
  }

  /** Some work, and now and then a fault. */
  async round(): Promise<void> {
    const bench = this.#bench;
    if (bench.outstanding > MOST_OUTSTANDING) await bench.moreEnds(8);
    const added = await this.#add();
    const fault = this.#draw();
    if (fault !== undefined) {
      await this.#cause(fault, added);
      this.#count(fault);
    }
    this.samples.push({ ...look(this.#survivor), checker: look(process.pid).memory });
    this.#rounds += 1;
    if (this.#rounds % ROUNDS_BETWEEN_ACCOUNTS === 0) await bench.settle();
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  #count(fault: Fault | 'timeout'): void {
    this.faults.set(fault, (this.faults.get(fault) ?? 0) + 1);
  }

  #add(): Promise<string[]> {
    const seconds = LENGTHS[this.#below(LENGTHS.length)] ?? PLAIN_SECONDS;
    const model = this.#below(MODELS);
    const count = 1 + this.#below(8);
    if (this.#below(20) > 0) return this.#bench.add(count, { seconds, model });
    this.#count('timeout');
    const clocks = { timeoutMs: SHORT_TIMEOUT_MS };
    return this.#bench.add(count, { seconds, model, clocks, orCode: 'JOB_TIMEOUT' });
  }

  #draw(): Fault | undefined {
    let left = this.#below(1_000);
    for (const fault of Object.keys(FAULTS) as Fault[]) {
      left -= FAULTS[fault];
      if (left < 0) return fault;
    }
    return undefined;
  }

  async #cause(fault: Fault, added: readonly string[]): Promise<void> {
    const { redis } = this.#bench;
    switch (fault) {
      case 'cancel':
        return this.#cancel(added);
      case 'kill':
        return this.#kill();
      case 'freeze':
        return this.#freeze();
      case 'stopRedis':
        redis.pause();
        await delay(FREEZE_MS);
        return redis.resume();
      case 'killRedis':
        await redis.kill();
        return redis.restart();
    }
  }

  async #cancel(added: readonly string[]): Promise<void> {
    const id = added[this.#below(added.length)] ?? '';
    this.#bench.ledger.alsoExpect(id, { code: 'CANCELLED' });
    await this.#bench.queueOf(id).cancel(id);
  }

  get #victim(): number | undefined {
    return this.#bench.supervisor.pids.find((pid) => pid !== this.#survivor);
  }

  async #kill(): Promise<void> {
    const victim = this.#victim;
    if (victim === undefined) return;
    const died = once(this.#bench.supervisor, 'crash');
    signalProcess(victim, 'SIGKILL');
    await died;
  }

  async #freeze(): Promise<void> {
    const victim = this.#victim;
    if (victim === undefined) return;
    signalProcess(victim, 'SIGSTOP');
    await delay(FREEZE_MS);
    signalProcess(victim, 'SIGCONT');
  }
}

/** What must not be left when every job has ended. */
async function assertNothingLeft(bench: FaultBench): Promise<void> {
  const { connection } = bench.redis;
  const { resultsDir } = bench.settings;
  for (const { name } of bench.queues) {
    const locks = await connection.keys(bullKey(connection, name, '*:lock'));
    ensure(locks.length === 0, `locks are left: ${locks.join(', ')}`);
    for (const state of ['active', 'wait', 'stalled']) {
      const key = bullKey(connection, name, state);
      const type = await connection.type(key);
      const size = type === 'set' ? await connection.scard(key) : await connection.llen(key);
      ensure(size === 0, `${size} jobs of ${name} are left in ${state}`);
    }
  }
  // What writers that were killed left is removed by whoever opens the store an hour later.
  await LocalResultStore.open(resultsDir, () => Date.now() + AN_HOUR_MS);
  const files = readdirSync(resultsDir, { recursive: true, encoding: 'utf8' });
  const temporary = files.filter((name) => name.endsWith('.tmp') || name.endsWith('.jsonl'));
  ensure(temporary.length === 0, `files are left: ${temporary.join(', ')}`);
}

export async function soak(context: ScenarioContext, minutes: number): Promise<SoakResult> {
  await using bench = await FaultBench.open(context, { workers: 2, models: MODELS });
  const run = new Soak(bench, context.seed);
  let stalls = 0;
  for (const queue of bench.queues) {
    queue.on('stalled', () => {
      stalls += 1;
    });
  }
  const end = performance.now() + minutes * 60_000;
  while (performance.now() < end) await run.round();
  await bench.allEnded();
  const faults = Object.fromEntries(run.faults);
  const times = [...run.faults.values()].reduce((sum, count) => sum + count, 0);
  const outcome = await bench.outcome(null, times);
  const { samples } = run;
  const quarter = (from: number) =>
    samples.slice(
      Math.floor((samples.length * from) / 4),
      Math.ceil((samples.length * (from + 1)) / 4),
    );
  const middle = (of: keyof Sample, from: number) =>
    Math.round(median(quarter(from).map((each) => each[of])));
  const result = {
    ...outcome,
    minutes,
    faults,
    stalls,
    memoryBefore: middle('memory', 1),
    memoryAfter: middle('memory', 3),
    filesBefore: middle('files', 1),
    filesAfter: middle('files', 3),
    checkerBefore: middle('checker', 1),
    checkerAfter: middle('checker', 3),
  };
  process.stderr.write(`soak: ${JSON.stringify(result)}\n`);
  await assertNothingLeft(bench);
  return result;
}

/** @throws {ScenarioError} when something was lost or grew */
export function assertSteady(result: SoakResult): void {
  const { lost, doubled, memoryBefore, memoryAfter, filesBefore, filesAfter } = result;
  ensure(lost === 0 && doubled === 0, `${lost} lost, ${doubled} doubled`);
  const growth = memoryAfter / memoryBefore - 1;
  ensure(growth <= MEMORY_TOLERANCE, `memory grew from ${memoryBefore} to ${memoryAfter} MiB`);
  ensure(filesAfter - filesBefore <= FILES_TOLERANCE, `files: ${filesBefore}, then ${filesAfter}`);
}

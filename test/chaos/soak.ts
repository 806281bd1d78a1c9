/** A long time of mixed work and faults: nothing lost, and nothing left behind or growing. */
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { bullKey } from '../../src/queue/queue-names.ts';
import { randomFrom } from '../support/json-mutator.ts';
import { ensure, type ScenarioContext, type ScenarioOutcome } from './scenario.ts';
import { CHAOS_MODEL, FaultBench } from './support/fault-bench.ts';
import { PLAIN_SECONDS } from './support/fault-plan.ts';

export interface SoakResult extends ScenarioOutcome {
  readonly minutes: number;
  /** Of the worker process that lived from the start to the end, in MiB: medians of the second and the last quarter. */
  readonly memoryBefore: number;
  readonly memoryAfter: number;
  /** Open files of that process. */
  readonly filesBefore: number;
  readonly filesAfter: number;
}

interface Sample {
  readonly memory: number;
  readonly files: number;
}

/** Whole windows of the detector, none longer than a segment. */
const LENGTHS = [0.512, PLAIN_SECONDS, 1.536, 5.12, 10.24, 20.48];
const MOST_OUTSTANDING = 40;
const MEMORY_TOLERANCE = 0.1;
/** Sockets and pipes come and go. */
const FILES_TOLERANCE = 4;

function look(pid: number): Sample {
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
  faults = 0;

  constructor(bench: FaultBench, seed: number) {
    this.#bench = bench;
    this.#random = randomFrom(seed);
    this.#survivor = bench.supervisor.pids[0] ?? 0;
  }

  /** Some work, and now and then a fault. */
  async round(): Promise<void> {
    const bench = this.#bench;
    const ids = bench.ledger.ids.length;
    if (ids - bench.ended > MOST_OUTSTANDING) await bench.moreEnds(8);
    const seconds = LENGTHS[this.#below(LENGTHS.length)] ?? PLAIN_SECONDS;
    const added = await bench.add(1 + this.#below(8), { seconds });
    const draw = this.#random();
    if (draw < 0.1) await this.#cancel(added);
    else if (draw < 0.16) await this.#kill();
    this.samples.push(look(this.#survivor));
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  async #cancel(added: readonly string[]): Promise<void> {
    const id = added[this.#below(added.length)] ?? '';
    this.#bench.ledger.alsoExpect(id, { code: 'CANCELLED' });
    await this.#bench.queue.cancel(id);
    this.faults += 1;
  }

  async #kill(): Promise<void> {
    const victim = this.#bench.supervisor.pids.find((pid) => pid !== this.#survivor);
    if (victim === undefined) return;
    const died = once(this.#bench.supervisor, 'crash');
    process.kill(victim, 'SIGKILL');
    await died;
    this.faults += 1;
  }
}

/** What must not be left when every job has ended. */
async function assertNothingLeft(bench: FaultBench): Promise<void> {
  const { connection } = bench.redis;
  const { resultsDir } = bench.settings;
  const locks = await connection.keys(bullKey(connection, CHAOS_MODEL, '*:lock'));
  ensure(locks.length === 0, `locks are left: ${locks.join(', ')}`);
  for (const state of ['active', 'wait', 'stalled']) {
    const key = bullKey(connection, CHAOS_MODEL, state);
    const type = await connection.type(key);
    const size = type === 'set' ? await connection.scard(key) : await connection.llen(key);
    ensure(size === 0, `${size} jobs are left in ${state}`);
  }
  const files = readdirSync(resultsDir, { recursive: true, encoding: 'utf8' });
  const temporary = files.filter((name) => name.endsWith('.tmp') || name.endsWith('.jsonl'));
  ensure(temporary.length === 0, `files are left: ${temporary.join(', ')}`);
}

export async function soak(context: ScenarioContext, minutes: number): Promise<SoakResult> {
  await using bench = await FaultBench.open(context, { workers: 2 });
  const run = new Soak(bench, context.seed);
  const end = performance.now() + minutes * 60_000;
  while (performance.now() < end) await run.round();
  await bench.allEnded();
  await assertNothingLeft(bench);
  const outcome = await bench.outcome(null, run.faults);
  const { samples } = run;
  const quarter = (from: number) =>
    samples.slice(
      Math.floor((samples.length * from) / 4),
      Math.ceil((samples.length * (from + 1)) / 4),
    );
  const memory = (from: number) => Math.round(median(quarter(from).map((each) => each.memory)));
  const files = (from: number) => median(quarter(from).map((each) => each.files));
  return {
    ...outcome,
    minutes,
    memoryBefore: memory(1),
    memoryAfter: memory(3),
    filesBefore: files(1),
    filesAfter: files(3),
  };
}

/** @throws {ScenarioError} when something was lost or grew */
export function assertSteady(result: SoakResult): void {
  const { lost, doubled, memoryBefore, memoryAfter, filesBefore, filesAfter } = result;
  ensure(lost === 0 && doubled === 0, `${lost} lost, ${doubled} doubled`);
  const growth = memoryAfter / memoryBefore - 1;
  ensure(growth <= MEMORY_TOLERANCE, `memory grew from ${memoryBefore} to ${memoryAfter} MiB`);
  ensure(filesAfter - filesBefore <= FILES_TOLERANCE, `files: ${filesBefore}, then ${filesAfter}`);
}

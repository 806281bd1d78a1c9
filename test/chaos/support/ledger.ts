/** Keeps account of jobs: what each should become, and what the queue and the result store say that it became. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import type { ErrorCode } from '../../../src/core/errors.ts';
import type { AudioQueue } from '../../../src/queue/audio-queue.ts';
import type { JobView } from '../../../src/queue/jobs/job-view.ts';
import { bullKey } from '../../../src/queue/redis/queue-names.ts';
import { LocalResultStore } from '../../../src/storage/local-result-store.ts';

/** The text of a result, or the code of a failure; one of several where it depends on which was first. */
export type Expected = { readonly text: string } | { readonly code: ErrorCode };

export interface Account {
  readonly jobs: number;
  readonly completed: number;
  readonly failed: number;
  readonly lost: number;
  readonly doubled: number;
  /** What is wrong, for people. */
  readonly findings: readonly string[];
}

export interface LedgerSources {
  /** No two of them have a job of the same id. */
  readonly queues: readonly AudioQueue[];
  readonly connection: Redis;
  readonly resultsDir: string;
}

interface Tally {
  completed: number;
  failed: number;
  lost: number;
  doubled: number;
}

/**
 * Jobs are open until `settle` has looked at what became of them. Settled ones are only counted, so that the ledger holds no
 * more than what is under way, and Redis may forget them.
 */
export class Ledger {
  readonly #expected = new Map<string, readonly Expected[]>();
  /** Ends of each open job that the event streams have told. */
  readonly #ends = new Map<string, number>();
  readonly #ignored = new Set<string>();
  /** The last event that was counted, by queue. */
  readonly #counted = new Map<string, string>();
  readonly #settled: Tally = { completed: 0, failed: 0, lost: 0, doubled: 0 };
  readonly #settledFindings: string[] = [];
  #settledJobs = 0;
  #settledResults = 0;
  #store: Promise<LocalResultStore> | undefined;

  /** Open jobs. */
  get ids(): string[] {
    return [...this.#expected.keys()];
  }

  expect(id: string, ...outcomes: readonly Expected[]): void {
    this.#expected.set(id, outcomes);
  }

  /** The job, an open one, may also end so. */
  alsoExpect(id: string, outcome: Expected): void {
    this.expect(id, ...(this.#expected.get(id) ?? []), outcome);
  }

  /** Whether there is such a job, and how it ends, is of no interest. */
  ignore(id: string): void {
    this.#ignored.add(id);
  }

  /**
   * Closes the open jobs that have ended. Streams keep their last ten thousand events or so: call before more have come since
   * the last time. @returns their ids
   */
  async settle(sources: LedgerSources): Promise<string[]> {
    await this.#countEnds(sources);
    const store = await this.#openStore(sources);
    const ended = this.ids.filter((id) => this.#ends.has(id));
    for (const id of ended) {
      const key = await this.#judge(
        id,
        store,
        sources.queues,
        this.#settled,
        this.#settledFindings,
      );
      if (key !== undefined) this.#settledResults += 1;
      this.#expected.delete(id);
      this.#ends.delete(id);
    }
    this.#settledJobs += ended.length;
    return ended;
  }

  /** Call when every job should have ended. */
  async account(sources: LedgerSources): Promise<Account> {
    const { queues, resultsDir } = sources;
    const store = await this.#openStore(sources);
    await this.#countEnds(sources);
    const tally = { ...this.#settled };
    const findings = [...this.#settledFindings];
    const wanted = new Set<string>();
    for (const id of this.#expected.keys()) {
      wanted.add((await this.#judge(id, store, queues, tally, findings)) ?? '');
    }
    // Results of settled jobs are known by number only.
    let unclaimed = this.#settledResults;
    for await (const file of resultFiles(resultsDir)) {
      if (wanted.delete(file)) continue;
      unclaimed -= 1;
      if (unclaimed >= 0) continue;
      tally.doubled += 1;
      findings.push(`${file} is nobody's result`);
    }
    if (unclaimed > 0) {
      tally.lost += unclaimed;
      findings.push(`${unclaimed} results have vanished`);
    }
    return { jobs: this.#settledJobs + this.#expected.size, ...tally, findings };
  }

  /** Once: opening looks at every file. */
  #openStore({ resultsDir }: LedgerSources): Promise<LocalResultStore> {
    this.#store ??= LocalResultStore.open(resultsDir);
    return this.#store;
  }

  async #countEnds({ queues, connection }: LedgerSources): Promise<void> {
    for (const { name } of queues) {
      const since = this.#counted.get(name);
      const from = since === undefined ? '-' : `(${since}`;
      for (const [position, fields] of await connection.xrange(
        bullKey(connection, name, 'events'),
        from,
        '+',
      )) {
        this.#counted.set(name, position);
        const id = endedIn(fields);
        if (id !== undefined) this.#countEnd(id);
      }
    }
  }

  #countEnd(id: string): void {
    if (this.#expected.has(id)) this.#ends.set(id, (this.#ends.get(id) ?? 0) + 1);
    else if (!this.#ignored.has(id)) {
      this.#settled.doubled += 1;
      this.#settledFindings.push(`${id} ended once more, later`);
    }
  }

  /** Counts what became of a job. @returns the key of its result */
  async #judge(
    id: string,
    store: LocalResultStore,
    queues: readonly AudioQueue[],
    tally: Tally,
    findings: string[],
  ): Promise<string | undefined> {
    const views = await Promise.all(queues.map((queue) => queue.get(id)));
    const view = views.find((each) => each !== undefined);
    const key = view?.outcome?.resultKey;
    const found = key === undefined ? failureOf(view) : await resultIn(store, key);
    const outcomes = this.#expected.get(id) ?? [];
    if (!outcomes.some((expected) => isSame(expected, found))) {
      tally.lost += 1;
      findings.push(`${id} is ${view?.state}: ${JSON.stringify(found)}`);
    } else if (found !== undefined && 'text' in found) tally.completed += 1;
    else tally.failed += 1;
    const count = this.#ends.get(id) ?? 0;
    if (count > 1) tally.doubled += count - 1;
    if (count !== 1) findings.push(`${id} ended ${count} times`);
    return key;
  }
}

function failureOf(view: JobView | undefined): Expected | undefined {
  return view?.failure === undefined ? undefined : { code: view.failure.code };
}

async function resultIn(store: LocalResultStore, key: string): Promise<Expected | undefined> {
  const result = await store.read(key).catch(() => undefined);
  return result?.task === 'transcribe' ? { text: result.text } : undefined;
}

function isSame(expected: Expected, found: Expected | undefined): boolean {
  return JSON.stringify(expected) === JSON.stringify(found);
}

/** The job that an event says has ended. */
function endedIn(fields: readonly string[]): string | undefined {
  const event = new Map<string, string>();
  for (let at = 0; at + 1 < fields.length; at += 2) {
    event.set(String(fields[at]), String(fields[at + 1]));
  }
  const name = event.get('event');
  return name === 'completed' || name === 'failed' ? event.get('jobId') : undefined;
}

/**
 * Not those that a dead writer left unfinished: the store removes them when they are an hour old. One shard at a time; Node's
 * recursive `opendir` forgets entries of larger folders.
 */
async function* resultFiles(resultsDir: string): AsyncGenerator<string> {
  for (const shard of await readdir(resultsDir, { withFileTypes: true })) {
    if (!shard.isDirectory()) continue;
    for (const name of await readdir(join(resultsDir, shard.name))) {
      if (name.endsWith('.json')) yield join(shard.name, name);
    }
  }
}

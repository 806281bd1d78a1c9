/** Keeps account of jobs: what each should become, and what the queue and the result store say that it became. */
import { readdir } from 'node:fs/promises';
import type { Redis } from 'ioredis';
import type { ErrorCode } from '../../../src/core/errors.ts';
import type { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { bullKey } from '../../../src/queue/queue-names.ts';
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

export class Ledger {
  readonly #expected = new Map<string, readonly Expected[]>();
  /** Ends of each job that the event streams have told. */
  readonly #ends = new Map<string, number>();
  /** The last event that was counted, by queue. */
  readonly #counted = new Map<string, string>();

  get size(): number {
    return this.#expected.size;
  }

  get ids(): string[] {
    return [...this.#expected.keys()];
  }

  expect(id: string, ...outcomes: readonly Expected[]): void {
    this.#expected.set(id, outcomes);
  }

  /** The job may also end so. */
  alsoExpect(id: string, outcome: Expected): void {
    this.expect(id, ...(this.#expected.get(id) ?? []), outcome);
  }

  /** Streams keep their last ten thousand events or so: call before more have come since the last time. */
  async countEnds(queues: readonly AudioQueue[], connection: Redis): Promise<void> {
    for (const { name } of queues) {
      const since = this.#counted.get(name);
      const from = since === undefined ? '-' : `(${since}`;
      for (const [position, fields] of await connection.xrange(
        bullKey(name, 'events'),
        from,
        '+',
      )) {
        this.#counted.set(name, position);
        const id = endedIn(fields);
        if (id !== undefined) this.#ends.set(id, (this.#ends.get(id) ?? 0) + 1);
      }
    }
  }

  /** Call when every job should have ended. */
  async account({ queues, connection, resultsDir }: LedgerSources): Promise<Account> {
    const store = await LocalResultStore.open(resultsDir);
    await this.countEnds(queues, connection);
    const findings: string[] = [];
    const wanted = new Set<string>();
    let completed = 0;
    let failed = 0;
    let lost = 0;
    let doubled = 0;
    for (const [id, outcomes] of this.#expected) {
      const views = await Promise.all(queues.map((queue) => queue.get(id)));
      const view = views.find((each) => each !== undefined);
      let found: Expected | undefined;
      if (view?.outcome !== undefined) {
        wanted.add(view.outcome.resultKey);
        const result = await store.read(view.outcome.resultKey).catch(() => undefined);
        if (result?.task === 'transcribe') found = { text: result.text };
      } else if (view?.failure !== undefined) found = { code: view.failure.code };
      if (!outcomes.some((expected) => isSame(expected, found))) {
        lost += 1;
        findings.push(`${id} is ${view?.state}: ${JSON.stringify(found)}`);
      } else if (found !== undefined && 'text' in found) completed += 1;
      else failed += 1;
      const count = this.#ends.get(id) ?? 0;
      if (count === 1) continue;
      if (count > 1) doubled += count - 1;
      findings.push(`${id} ended ${count} times`);
    }
    const files = await resultFiles(resultsDir);
    for (const file of files.filter((name) => !wanted.has(name))) {
      doubled += 1;
      findings.push(`${file} is nobody's result`);
    }
    return { jobs: this.#expected.size, completed, failed, lost, doubled, findings };
  }
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

/** Not those that a dead writer left unfinished: the store removes them when they are an hour old. */
async function resultFiles(resultsDir: string): Promise<string[]> {
  const entries = await readdir(resultsDir, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith('.json'))
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(resultsDir.length + 1));
}

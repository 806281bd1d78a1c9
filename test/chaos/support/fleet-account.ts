/** What became of the jobs of a fleet: by the events of its queue, its batches, and the objects in its bucket. */
import type { Redis } from 'ioredis';
import type { WavepoolClient } from '../../../src/client/wavepool-client.ts';
import { Transcript } from '../../../src/core/results/job-result.ts';
import { toStreamEvent } from '../../../src/queue/events/event-history.ts';
import { bullKey, queueNameOf } from '../../../src/queue/redis/queue-names.ts';
import type { SeaweedServer } from '../../support/seaweed.ts';
import { HeardWords } from './fleet-recordings.ts';

/** Longer than a replica may lag behind. */
const LAG_MS = 15_000;
const READERS = 8;

interface End {
  readonly jobId: string;
  /** By the clock of Redis, which is this machine's. */
  readonly atMs: number;
}

/** The ends that the event stream of a queue tells, in their order. */
export class EndLog {
  readonly #connection: Redis;
  readonly #key: string;
  readonly #active: string;
  readonly #ends = new Map<string, End>();
  #position = '';

  constructor(connection: Redis, model: string) {
    this.#connection = connection;
    this.#key = bullKey(connection, queueNameOf(model), 'events');
    this.#active = bullKey(connection, queueNameOf(model), 'active');
  }

  /** Streams keep about ten thousand events: call before so many have come since the last time. */
  async read(): Promise<void> {
    const from = this.#position === '' ? '-' : `(${this.#position}`;
    for (const entry of await this.#connection.xrange(this.#key, from, '+')) this.#note(entry);
  }

  /**
   * After a failover: what the old primary told in its last moment, and no replica heard, has not happened. The jobs run again.
   * @param atMs of the failover
   */
  async forgetWhatWasLost(atMs: number): Promise<void> {
    const from = atMs - LAG_MS;
    const kept = await this.#connection.xrange(this.#key, `${from}`, '+');
    const known = new Set(kept.map(([id]) => id));
    for (const [id, { atMs: toldAt }] of this.#ends) {
      if (toldAt >= from && !known.has(id)) this.#ends.delete(id);
    }
    this.#position = '';
    for (const entry of kept) this.#note(entry);
  }

  /** In their order. */
  get all(): readonly End[] {
    return [...this.#ends.values()].toSorted((a, b) => a.atMs - b.atMs);
  }

  /** Jobs that have ended. */
  get jobs(): number {
    return new Set([...this.#ends.values()].map(({ jobId }) => jobId)).size;
  }

  /** From then to the next end. */
  nextAfter(atMs: number): number | undefined {
    const next = this.all.find((end) => end.atMs > atMs);
    return next === undefined ? undefined : next.atMs - atMs;
  }

  /** Jobs that a worker has. */
  async running(): Promise<string[]> {
    return this.#connection.lrange(this.#active, 0, -1);
  }

  /** When the last one of these ended. */
  lastOf(jobs: readonly string[]): number {
    return Math.max(
      ...this.all.filter(({ jobId }) => jobs.includes(jobId)).map(({ atMs }) => atMs),
    );
  }

  #note([id, pairs]: [string, string[]]): void {
    this.#position = id;
    const { name, fields } = toStreamEvent([id, pairs]);
    const { jobId } = fields;
    if ((name !== 'completed' && name !== 'failed') || jobId === undefined) return;
    this.#ends.set(id, { jobId, atMs: Number(id.split('-')[0]) });
  }
}

export interface FleetAccount {
  readonly jobs: number;
  readonly completed: number;
  readonly lost: number;
  readonly doubled: number;
  /** What is wrong, for people. */
  readonly findings: readonly string[];
}

export interface AccountSources {
  readonly client: WavepoolClient;
  readonly batches: readonly string[];
  /** How many jobs these should have. */
  readonly wanted: number;
  readonly objects: SeaweedServer;
  readonly ends: EndLog;
}

/** Call when both batches have ended. */
export async function account(sources: AccountSources): Promise<FleetAccount> {
  const { client, batches, wanted, objects, ends } = sources;
  const findings: string[] = [];
  const texts = await storedTexts(objects, findings);
  const counts = new Map<string, number>();
  for (const { jobId } of ends.all) counts.set(jobId, (counts.get(jobId) ?? 0) + 1);
  const words = new HeardWords();
  let [jobs, completed, doubled] = [0, 0, 0];
  for (const batch of batches) {
    for await (const { id, state, input } of client.batches.items(batch, { pageSize: 200 })) {
      jobs += 1;
      const [text, ...more] = texts.get(id) ?? [];
      texts.delete(id);
      const times = counts.get(id) ?? 0;
      doubled += more.length + Math.max(0, times - 1);
      if (times > 1) findings.push(`${id} ended ${times} times`);
      const name = input?.name ?? '';
      if (state === 'completed' && text !== undefined && words.areRight(name, text)) completed += 1;
      else findings.push(`${id} (${name}) is ${state}: ${text}`);
    }
  }
  for (const id of texts.keys()) findings.push(`there is a result of ${id}, which is nobody's`);
  doubled += texts.size + Math.max(0, jobs - wanted);
  return { jobs, completed, lost: wanted - Math.min(wanted, completed), doubled, findings };
}

/** Every text in the bucket, by job. */
async function storedTexts(objects: SeaweedServer, findings: string[]) {
  const texts = new Map<string, string[]>();
  const keys = await objects.keys('wavepool/results/');
  const read = async (): Promise<void> => {
    for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
      try {
        const { jobId, text } = Transcript.parse(JSON.parse(await objects.read(key)));
        texts.set(jobId, [...(texts.get(jobId) ?? []), text]);
      } catch (error) {
        findings.push(`${key}: ${String(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: READERS }, read));
  return texts;
}

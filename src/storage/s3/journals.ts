/**
 * Journals as objects. Each append writes a new one, so that another machine can go on with the job:
 *
 *   journals/SHA-256 of the job id/FINGERPRINT/NUMBER-RANDOM.jsonl
 *
 * An object is whole or does not exist. Two attempts that write at once do not disturb each other, because names are random.
 */
import { randomBytes } from 'node:crypto';
import {
  formatStoredLines,
  hashOfJobId,
  type Journal,
  type JournalStore,
  parseStoredLines,
  RETENTION_MS,
  SWEEP_INTERVAL_MS,
} from '../journals.ts';
import type { Bucket } from './bucket.ts';

const READS_AT_ONCE = 8;
/** At most this many jobs without a journal are remembered. */
const MOST_REMEMBERED = 10_000;

export class S3Journals implements JournalStore {
  readonly #bucket: Bucket;
  readonly #now: () => number;
  /** Jobs that are known to have no journal, so that removing it needs no request. */
  readonly #without = new Set<string>();
  #sweptAt = Number.NEGATIVE_INFINITY;

  constructor(bucket: Bucket, now: () => number = Date.now) {
    this.#bucket = bucket;
    this.#now = now;
  }

  async holds(jobId: string): Promise<boolean> {
    const held = (await this.#bucket.first(`${hashOfJobId(jobId)}/`)) !== undefined;
    if (this.#without.size >= MOST_REMEMBERED) this.#without.clear();
    if (!held) this.#without.add(jobId);
    return held;
  }

  async open(jobId: string, fingerprint: string): Promise<Journal> {
    this.#without.delete(jobId);
    await this.#sweepNowAndThen();
    const folder = `${hashOfJobId(jobId)}/`;
    const own: string[] = [];
    for await (const { key } of this.#bucket.list(folder)) {
      if (key.startsWith(`${folder}${fingerprint}/`)) own.push(key);
      else await this.#bucket.remove(key);
    }
    const lines = (await readAll(this.#bucket, own)).flatMap(parseStoredLines);
    return new S3Journal(this.#bucket, `${folder}${fingerprint}/`, lines, own.length);
  }

  async remove(jobId: string): Promise<void> {
    if (this.#without.delete(jobId)) return;
    await this.removeByHash(hashOfJobId(jobId));
  }

  /** @param hash the result of `hashOfJobId` */
  async removeByHash(hash: string): Promise<void> {
    for await (const { key } of this.#bucket.list(`${hash}/`)) await this.#bucket.remove(key);
  }

  /** Removes objects that are older than a week. A job that still runs may lose some; it recognizes those parts again. */
  async sweep(): Promise<void> {
    this.#sweptAt = this.#now();
    const oldest = this.#now() - RETENTION_MS;
    for await (const { key, modifiedAtMs } of this.#bucket.list()) {
      if (modifiedAtMs < oldest) await this.#bucket.remove(key);
    }
  }

  async #sweepNowAndThen(): Promise<void> {
    if (this.#now() - this.#sweptAt >= SWEEP_INTERVAL_MS) await this.sweep();
  }
}

class S3Journal implements Journal {
  readonly lines: readonly string[];
  readonly #bucket: Bucket;
  readonly #folder: string;
  #number: number;

  constructor(bucket: Bucket, folder: string, lines: readonly string[], number: number) {
    this.#bucket = bucket;
    this.#folder = folder;
    this.lines = lines;
    this.#number = number;
  }

  /** An object is always durable, so `sync` makes no difference. */
  async append(lines: readonly string[]): Promise<void> {
    this.#number += 1;
    const number = String(this.#number).padStart(8, '0');
    const name = `${number}-${randomBytes(4).toString('hex')}.jsonl`;
    await this.#bucket.put(this.#folder + name, formatStoredLines(lines), 'application/jsonl');
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Returns the texts in the order of the keys. An object that was removed meanwhile gives an empty text. */
async function readAll(bucket: Bucket, keys: readonly string[]): Promise<string[]> {
  const texts: string[] = [];
  for (let start = 0; start < keys.length; start += READS_AT_ONCE) {
    const chunk = keys.slice(start, start + READS_AT_ONCE);
    texts.push(...(await Promise.all(chunk.map(async (key) => (await bucket.read(key)) ?? ''))));
  }
  return texts;
}

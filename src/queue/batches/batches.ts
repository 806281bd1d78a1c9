/** Batches: see `batch-flow.ts` for how they lie in Redis. */
import { randomBytes, randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { WavepoolError } from '../../core/errors.ts';
import {
  type BatchId,
  type BatchRecord,
  type BatchView,
  type ItemKey,
  parseBatchId,
  parseBatchRecord,
  parseItemKey,
} from '../../core/job/batch.ts';
import type { JobId, JobInput, JobTask, ModelId, NewJob, OmitEach } from '../../core/job/job.ts';
import type { BatchWebhook } from '../../core/webhook.ts';
import type { AudioQueue } from '../audio-queue.ts';
import { CANCELLED_PREFIX } from '../jobs/failures.ts';
import type { QueueRegistry } from '../queue-registry.ts';
import { toRedisError } from '../redis/connection.ts';
import {
  BATCH_QUEUE,
  batchGateId,
  batchItemsKey,
  bullKey,
  queueNameOf,
} from '../redis/queue-names.ts';
import {
  type BatchItem,
  type ItemPage,
  type ItemPageOptions,
  readEndedItems,
  readItemPage,
} from './batch-items.ts';
import { type BatchListOptions, type BatchPage, listBatches } from './batch-list.ts';
import { BatchRecords } from './batch-records.ts';
import { itemJobId, itemJobKey, readFacts, setKeys } from './batch-sets.ts';

/** Few enough that other work of the process gets its turn in time. */
const CHUNK = 100;
const CONCURRENT = 32;
const IDLE_MS = 15 * 60_000;
const SCAN = 500;

/** A job without an id of its own: the batch gives it one. */
export type NewItem = OmitEach<NewJob, 'id' | 'tenant'> & {
  /** @defaultValue its place in the submission */
  readonly key?: ItemKey | undefined;
};

export interface NewBatch {
  /** Random when left out. Of a batch that is known, only the items that it does not have are added. */
  readonly id?: BatchId | undefined;
  /** For people. */
  readonly name?: string | undefined;
  /** @defaultValue 'default' */
  readonly tenant?: string | undefined;
  readonly model: ModelId;
  /** Of all its jobs. @defaultValue 'transcribe' */
  readonly task?: JobTask | undefined;
  /** See `BatchRecord`. */
  readonly directory?: string | undefined;
  /** Told when all its jobs have ended; each job has its own. */
  readonly webhook?: BatchWebhook | undefined;
  /** Read as they are added. A key that comes again counts once. */
  readonly jobs: AsyncIterable<NewItem> | Iterable<NewItem>;
  /** Looked at between items. The batch stays open: create it again to go on. */
  readonly signal?: AbortSignal | undefined;
  /** Called with jobs that are about to be added. */
  readonly beforeAdd?: (jobs: readonly { id: JobId; input: JobInput }[]) => Promise<void>;
}

export interface RetryResult {
  readonly retried: number;
  /** Items whose jobs the queue has dropped. */
  readonly gone: number;
}

export interface BatchStoreOptions {
  readonly queues: QueueRegistry;
  /** Silence after which a producer is taken for dead. @defaultValue 15 minutes */
  readonly idleMs?: number | undefined;
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: (() => number) | undefined;
}

export class BatchStore {
  readonly #queues: QueueRegistry;
  readonly #records: BatchRecords;
  readonly #idleMs: number;
  readonly #now: () => number;

  /** The queues stay the caller's. */
  constructor({ queues, idleMs = IDLE_MS, now = Date.now }: BatchStoreOptions) {
    this.#queues = queues;
    this.#records = new BatchRecords(queues.connection, now);
    this.#idleMs = idleMs;
    this.#now = now;
  }

  /**
   * Adds a batch while its jobs are read, in chunks between which the process does other work. When it fails half-way the
   * batch stays open: create it again with the same id and jobs, and it goes on where it stopped.
   * @throws {WavepoolError} INVALID_REQUEST, MODEL_UNKNOWN, IDEMPOTENCY_CONFLICT when the id is that of a batch for another
   *   model or tenant, REDIS_UNAVAILABLE; the signal's reason; what reading the jobs throws
   */
  async create(batch: NewBatch): Promise<BatchView> {
    const id = parseBatchId(batch.id ?? randomUUID());
    const queue = await this.#queues.queueOf(batch.model);
    const proposed = this.#newRecord(batch);
    const opened = await this.#records.open(id, proposed, this.#idleMs);
    const record = await this.#record(id);
    if (record.model !== proposed.model || record.tenant !== proposed.tenant) {
      throw new WavepoolError('IDEMPOTENCY_CONFLICT', `batch ${id} is another one`);
    }
    if (opened !== 'closed') {
      const isWhole = await this.#feed(id, record, queue, batch, opened === 'added');
      if (isWhole) await this.#records.close(id);
      // Cancelled meanwhile: so is what was added since.
      if ((await this.get(id)).state === 'cancelled') await this.#cancelItems(id, record);
    }
    return this.get(id);
  }

  /** @throws {WavepoolError} BATCH_NOT_FOUND, REDIS_UNAVAILABLE */
  async get(id: BatchId): Promise<BatchView> {
    const view = await this.#records.read(parseBatchId(id));
    if (view === undefined) throw new WavepoolError('BATCH_NOT_FOUND', id);
    return view;
  }

  /** The latest first. */
  async list(options: BatchListOptions): Promise<BatchPage> {
    return listBatches(this.#queues.connection, this.#records, options);
  }

  /** @throws {WavepoolError} BATCH_NOT_FOUND, REDIS_UNAVAILABLE */
  async items(id: BatchId, options: ItemPageOptions): Promise<ItemPage> {
    const record = await this.#record(id);
    const queue = await this.#queues.queueOf(record.model);
    return readItemPage({ connection: this.#queues.connection, id, record }, queue, options);
  }

  /**
   * The items that have ended, in order of submission, read as they are asked for.
   * @throws {WavepoolError} BATCH_NOT_FOUND, REDIS_UNAVAILABLE
   */
  async *ended(id: BatchId): AsyncGenerator<BatchItem> {
    const record = await this.#record(id);
    yield* readEndedItems({ connection: this.#queues.connection, id, record });
  }

  /**
   * Ends all waiting items, asks the workers of running ones to stop, and lets nothing be added. What has ended stays as it
   * is. Changes nothing when all have ended; may be repeated when it was interrupted.
   * @throws {WavepoolError} BATCH_NOT_FOUND, REDIS_UNAVAILABLE
   */
  async cancel(id: BatchId): Promise<BatchView> {
    const { state } = await this.get(id);
    if (state === 'completed') return this.get(id);
    await this.#records.cancel(id);
    await this.#cancelItems(id, await this.#record(id));
    await this.#records.cancelled(id);
    return this.get(id);
  }

  /**
   * Runs the failed items once more, and the cancelled ones when asked for.
   * @throws {WavepoolError} BATCH_NOT_FOUND, REDIS_UNAVAILABLE
   */
  async retryFailed(id: BatchId, { cancelled = false } = {}): Promise<RetryResult> {
    const record = await this.#record(id);
    const queue = await this.#queues.queueOf(record.model);
    let retried = 0;
    let gone = 0;
    let resumed = false;
    for await (const ids of this.#failedItems(id, record, cancelled)) {
      if (!resumed) await this.#records.resume(id, this.#idleMs);
      resumed = true;
      const known = await queue.getMany(ids);
      gone += ids.length - known.size;
      await concurrently([...known.keys()], async (jobId) => {
        if (await orGone(queue.retry(jobId))) retried += 1;
      });
    }
    if (resumed) await this.#records.resumed(id);
    return { retried, gone };
  }

  /** See `BatchRecords.remove`. */
  remove(id: BatchId): Promise<boolean> {
    return this.#records.remove(parseBatchId(id));
  }

  /** Idempotent. */
  close(): Promise<void> {
    return this.#records.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #newRecord({ name, tenant = 'default', model, task, ...more }: NewBatch): BatchRecord {
    const { directory, webhook } = more;
    return parseBatchRecord({
      ...(name === undefined ? {} : { name }),
      tenant,
      model,
      ...(task === undefined ? {} : { task }),
      ...(directory === undefined ? {} : { directory }),
      ...(webhook === undefined ? {} : { webhook }),
      jobPrefix: `b${randomBytes(8).toString('hex')}`,
      createdAt: this.#now(),
    });
  }

  async #record(id: BatchId): Promise<BatchRecord> {
    const record = await this.#records.record(parseBatchId(id));
    if (record === undefined) throw new WavepoolError('BATCH_NOT_FOUND', id);
    return record;
  }

  /** False when the batch was closed meanwhile. */
  async #feed(
    id: BatchId,
    record: BatchRecord,
    queue: AudioQueue,
    { jobs, signal, beforeAdd }: NewBatch,
    isNew: boolean,
  ): Promise<boolean> {
    let position = 0;
    for await (const chunk of chunksOf(jobs, signal)) {
      if (!(await this.#records.keepOpen(id, this.#idleMs))) return false;
      const items = chunk.map(({ key, ...job }, at) => ({
        key: key === undefined ? String(position + at) : parseItemKey(key),
        job: { ...job, tenant: record.tenant },
      }));
      const isAdded = await this.#addPlaces(id, position, items);
      position += chunk.length;
      const missing = isNew && isAdded ? items : await this.#missing(id, record, items);
      const added = missing.map(({ key, job }) => ({ ...job, id: itemJobId(record, key) }));
      await beforeAdd?.(added);
      await queue.addMany(added, { queue: BATCH_QUEUE, id });
      await nextTurn();
    }
    return true;
  }

  /** Before the jobs: an item whose job is not there is added when the batch goes on. False when some are known. */
  async #addPlaces(
    id: BatchId,
    position: number,
    items: readonly { readonly key: string }[],
  ): Promise<boolean> {
    const entries = items.flatMap(({ key }, at) => [position + at, key]);
    const { connection } = this.#queues;
    const added = await guarded(() =>
      connection.zadd(batchItemsKey(connection, id), 'NX', ...entries),
    );
    return Number(added) === items.length;
  }

  async #missing<Item extends { readonly key: string }>(
    id: BatchId,
    record: BatchRecord,
    items: readonly Item[],
  ): Promise<Item[]> {
    const unique = [...new Map(items.map((item) => [item.key, item])).values()];
    const keys = unique.map(({ key }) => key);
    const facts = await guarded(() => readFacts(this.#queues.connection, id, record, keys));
    return unique.filter((_, at) => facts[at] === undefined);
  }

  async #cancelItems(id: BatchId, record: BatchRecord): Promise<void> {
    const queue = await this.#queues.queueOf(record.model);
    const { connection } = this.#queues;
    const gate = bullKey(connection, BATCH_QUEUE, batchGateId(id));
    const start = bullKey(connection, queueNameOf(record.model), '');
    const { pending } = setKeys(connection, id);
    let cursor = '0';
    do {
      const [next, jobKeys] = await guarded(() => connection.sscan(pending, cursor, 'COUNT', SCAN));
      cursor = next;
      const ids = jobKeys.filter((key) => key !== gate).map((key) => key.slice(start.length));
      await concurrently(ids, async (jobId) => {
        await orGone(queue.cancel(jobId));
      });
    } while (cursor !== '0');
  }

  async *#failedItems(
    id: BatchId,
    record: BatchRecord,
    cancelled: boolean,
  ): AsyncGenerator<JobId[]> {
    const { connection } = this.#queues;
    const start = bullKey(connection, queueNameOf(record.model), '');
    const { failed } = setKeys(connection, id);
    let cursor = '0';
    do {
      const [next, pairs] = await guarded(() => connection.hscan(failed, cursor, 'COUNT', SCAN));
      cursor = next;
      const ids: JobId[] = [];
      for (let at = 0; at < pairs.length; at += 2) {
        const jobKey = String(pairs[at]);
        const isCancelled = String(pairs[at + 1]).startsWith(CANCELLED_PREFIX);
        const isItem = jobKey.startsWith(itemJobKey(connection, record, ''));
        if (isItem && (cancelled || !isCancelled)) ids.push(jobKey.slice(start.length));
      }
      if (ids.length > 0) yield ids;
    } while (cursor !== '0');
  }
}

async function* chunksOf<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Item[]> {
  let chunk: Item[] = [];
  for await (const item of items) {
    signal?.throwIfAborted();
    chunk.push(item);
    if (chunk.length < CHUNK) continue;
    yield chunk;
    chunk = [];
  }
  signal?.throwIfAborted();
  if (chunk.length > 0) yield chunk;
}

/** A few at a time. */
async function concurrently<Item>(
  items: readonly Item[],
  run: (item: Item) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < items.length; start += CONCURRENT) {
    await Promise.all(items.slice(start, start + CONCURRENT).map(run));
  }
}

/** Undefined when the job was dropped meanwhile. */
async function orGone<Result>(call: Promise<Result>): Promise<Result | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof WavepoolError && error.code === 'JOB_NOT_FOUND') return undefined;
    throw error;
  }
}

async function guarded<Result>(call: () => Promise<Result>): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    throw toRedisError(error);
  }
}

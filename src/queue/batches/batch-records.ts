/** Batches as records: what is known of them, how they open, close, finish and are forgotten. Needs no model's queue. */

import { FlowProducer, Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import {
  type BatchChange,
  type BatchCounts,
  type BatchId,
  type BatchRecord,
  type BatchState,
  type BatchView,
  batchStanding,
  parseBatchRecord,
} from '../../core/job/batch.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { publishEvent } from '../events/service-events.ts';
import { toRedisError } from '../redis/connection.ts';
import {
  BATCH_QUEUE,
  batchesKey,
  batchItemsKey,
  batchTimesKey,
  bullKey,
  queuePrefix,
} from '../redis/queue-names.ts';
import { WebhookDeliveries } from '../webhooks/webhook-deliveries.ts';
import { batchDelivery } from '../webhooks/webhook-messages.ts';
import { addGate, addParent, removeGate, wakeParent } from './batch-flow.ts';
import { type BatchSnapshot, readSnapshot } from './batch-sets.ts';

const SWEEP_PAGE = 100;

/** `added`: it is new. `found`: it was there and still takes items. `closed`: it takes none. */
export type OpenResult = 'added' | 'found' | 'closed';

export class BatchRecords {
  readonly #connection: Redis;
  readonly #now: () => number;
  readonly #queue: Queue;
  readonly #flows: FlowProducer;
  #deliveries: WebhookDeliveries | undefined;
  #closing: Promise<void> | undefined;

  /** The connection stays the caller's. */
  constructor(connection: Redis, now: () => number) {
    this.#connection = connection;
    this.#now = now;
    const options = { connection, prefix: queuePrefix(connection) };
    this.#queue = new Queue(BATCH_QUEUE, options);
    this.#flows = new FlowProducer(options);
    // Commands report their own errors.
    this.#queue.on('error', () => undefined);
    this.#flows.on('error', () => undefined);
  }

  async record(id: BatchId): Promise<BatchRecord | undefined> {
    const data = await this.#guard(() =>
      this.#connection.hget(bullKey(this.#connection, BATCH_QUEUE, id), 'data'),
    );
    return data === null ? undefined : parseBatchRecord(parseJson(data));
  }

  async read(id: BatchId): Promise<BatchView | undefined> {
    const record = await this.record(id);
    if (record === undefined) return undefined;
    return viewOf(id, record, await this.#snapshot(id, record));
  }

  /**
   * Makes a batch that takes items, or goes on with one whose producer left off.
   * @param idleMs see `GateData`
   */
  async open(id: BatchId, record: BatchRecord, idleMs: number): Promise<OpenResult> {
    return this.#guard(async () => {
      const known = await this.record(id);
      if (known === undefined) {
        await addParent(this.#flows, record, { batchId: id, idleMs });
        await this.#connection.zadd(batchesKey(this.#connection), 'NX', record.createdAt, id);
        await this.tell(id, 'batch.opened');
        return 'added';
      }
      await this.#connection.zadd(batchesKey(this.#connection), 'NX', known.createdAt, id);
      return (await this.keepOpen(id, idleMs)) ? 'found' : 'closed';
    });
  }

  /**
   * Says that the producer is alive. Opens the batch again when it was interrupted.
   * @returns false when the batch takes no more items
   */
  async keepOpen(id: BatchId, idleMs: number): Promise<boolean> {
    return this.#guard(async () => {
      const key = batchTimesKey(this.#connection, id);
      const [closedAt, interruptedAt] = await this.#connection.hmget(
        key,
        'closedAt',
        'interruptedAt',
      );
      if (closedAt != null) return false;
      await this.#connection.hset(key, 'fedAt', this.#now());
      if (interruptedAt == null) return true;
      await addGate(this.#queue, { batchId: id, idleMs });
      await this.#connection.hdel(key, 'interruptedAt', 'finishedAt');
      await wakeParent(this.#queue, id);
      return true;
    });
  }

  /** No more items come; the batch finishes when those that it has have ended. Idempotent. */
  async close(id: BatchId): Promise<void> {
    await this.#guard(async () => {
      await this.#connection.hsetnx(batchTimesKey(this.#connection, id), 'closedAt', this.#now());
      await this.#release(id);
      await this.tell(id, 'batch.closed');
    });
  }

  /** Marks the batch as cancelled, and lets nothing be added. `cancelled` follows when its waiting items have ended. */
  async cancel(id: BatchId): Promise<void> {
    await this.#guard(async () => {
      const now = this.#now();
      await this.#connection.hsetnx(batchTimesKey(this.#connection, id), 'cancelledAt', now);
      await this.#connection.hsetnx(batchTimesKey(this.#connection, id), 'closedAt', now);
      await this.#release(id);
    });
  }

  async cancelled(id: BatchId): Promise<void> {
    await this.tell(id, 'batch.cancelled');
  }

  /** Items are about to be retried: the batch does not finish, or finishes again, before `resumed`. */
  async resume(id: BatchId, idleMs: number): Promise<void> {
    await this.#guard(async () => {
      await addGate(this.#queue, { batchId: id, idleMs });
      await this.#connection.hdel(batchTimesKey(this.#connection, id), 'cancelledAt', 'finishedAt');
      await wakeParent(this.#queue, id);
    });
  }

  async resumed(id: BatchId): Promise<void> {
    await this.#guard(async () => {
      await this.#release(id);
      await this.tell(id, 'batch.retried');
    });
  }

  /**
   * For how long the producer may still be silent; 0 when it was for too long, and then the batch goes on without it.
   * Housekeeping asks when a gate's time has come.
   */
  async patience(id: BatchId, idleMs: number): Promise<number> {
    return this.#guard(async () => {
      const key = batchTimesKey(this.#connection, id);
      const [closedAt, fedAt] = await this.#connection.hmget(key, 'closedAt', 'fedAt');
      if (closedAt != null) return 0;
      const record = await this.record(id);
      const left = Number(fedAt ?? record?.createdAt ?? 0) + idleMs - this.#now();
      if (left > 0) return left;
      if (record !== undefined) await this.#connection.hsetnx(key, 'interruptedAt', this.#now());
      return 0;
    });
  }

  /** All items have ended. May be said again: the first time counts until a retry. */
  async finish(id: BatchId): Promise<BatchCounts | undefined> {
    return this.#guard(async () => {
      const key = batchTimesKey(this.#connection, id);
      await this.#connection.hsetnx(key, 'finishedAt', this.#now());
      const view = await this.tell(id, 'batch.finished');
      if (view !== undefined) await this.#deliver(view);
      return view?.counts;
    });
  }

  /** Publishes how the batch stands, in the order of its jobs' events: in the queue of its model. */
  async tell(id: BatchId, type: BatchChange): Promise<BatchView | undefined> {
    const view = await this.read(id);
    if (view === undefined) return undefined;
    const { model } = view;
    await publishEvent(this.#connection, { type, model, data: batchStanding(view) });
    return view;
  }

  /**
   * Forgets a batch whose items have all ended; its jobs and their results stay as long as they would by themselves.
   * @returns false when it has not finished, or is not known
   */
  async remove(id: BatchId): Promise<boolean> {
    return this.#guard(async () => {
      const record = await this.record(id);
      if (record === undefined) {
        await this.#connection.zrem(batchesKey(this.#connection), id);
        return false;
      }
      const { gated, counts } = await this.#snapshot(id, record);
      if (gated || counts.waiting + counts.running > 0) return false;
      // Its children are not its to remove.
      if ((await this.#queue.remove(id, { removeChildren: false })) !== 1) return false;
      await this.#connection.del(
        batchTimesKey(this.#connection, id),
        batchItemsKey(this.#connection, id),
      );
      await this.#connection.zrem(batchesKey(this.#connection), id);
      return true;
    });
  }

  /** Forgets the batches that finished before a time. */
  async removeFinishedBefore(time: number): Promise<void> {
    await this.#guard(async () => {
      for (let start = 0; ; ) {
        const range = [
          batchesKey(this.#connection),
          '-inf',
          time,
          'LIMIT',
          start,
          SWEEP_PAGE,
        ] as const;
        const ids = await this.#connection.zrangebyscore(...range);
        for (const id of ids) {
          const finishedAt = await this.#connection.hget(
            batchTimesKey(this.#connection, id),
            'finishedAt',
          );
          const isOld = finishedAt !== null && Number(finishedAt) < time;
          const isGone = (await this.record(id)) === undefined;
          if (isGone || isOld) await this.remove(id);
          if ((await this.#connection.zscore(batchesKey(this.#connection), id)) !== null)
            start += 1;
        }
        if (ids.length < SWEEP_PAGE) return;
      }
    });
  }

  /** Idempotent. */
  dispose(): Promise<void> {
    this.#closing ??= (async () => {
      await Promise.all([this.#queue.close(), this.#flows.close(), this.#deliveries?.close()]);
    })();
    return this.#closing;
  }

  async #deliver(view: BatchView): Promise<void> {
    const delivery = batchDelivery(view);
    if (delivery === undefined) return;
    this.#deliveries ??= new WebhookDeliveries(this.#connection, this.#now);
    await this.#deliveries.add(delivery);
  }

  async #release(id: BatchId): Promise<void> {
    await removeGate(this.#queue, id);
    const record = await this.record(id);
    if (record === undefined) return;
    // It may have finished while items were still being added.
    const { counts } = await this.#snapshot(id, record);
    if (counts.waiting + counts.running > 0) await wakeParent(this.#queue, id);
  }

  #snapshot(id: BatchId, record: BatchRecord): Promise<BatchSnapshot> {
    return this.#guard(() => readSnapshot(this.#connection, id, record));
  }

  async #guard<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      throw toRedisError(error);
    }
  }
}

function viewOf(
  id: BatchId,
  record: BatchRecord,
  { times, counts, gated }: BatchSnapshot,
): BatchView {
  const busy = gated || counts.waiting + counts.running > 0;
  return {
    ...record,
    id,
    state: stateOf(times, busy),
    counts,
    interrupted: times.interruptedAt !== undefined,
    finishedAt: busy ? undefined : times.finishedAt,
  };
}

function stateOf(
  { cancelledAt, closedAt, interruptedAt }: BatchSnapshot['times'],
  busy: boolean,
): BatchState {
  if (cancelledAt !== undefined) return 'cancelled';
  if (closedAt === undefined && interruptedAt === undefined) return 'open';
  return busy ? 'running' : 'completed';
}

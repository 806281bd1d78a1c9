/** The parts of one split job on their way: into the queue of the model's parts, and their results back. */

import { setTimeout as delay } from 'node:timers/promises';
import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../core/errors.ts';
import { type PartData, PartResult } from '../core/job/part.ts';
import { parseJson } from '../core/lenient-parse.ts';
import { EndTracker } from './events/end-tracker.ts';
import type { StreamEvent } from './events/event-history.ts';
import { EventStream } from './events/event-stream.ts';
import { type EndReader, readJobEnds } from './events/job-ends.ts';
import { announceCancel, markCancelled } from './jobs/cancellation.ts';
import { failureOf } from './jobs/failures.ts';
import { closeConnection, connect, openConnection, type RedisAddress } from './redis/connection.ts';
import { jobPartsKey, partQueueOf, queueNameOf, queuePrefix } from './redis/queue-names.ts';

/** Results are in the events, too: few of them are kept. */
const EVENTS_KEPT = 200;
/** Whoever asked reads the end at once. */
const KEPT = { age: 600, count: 1_000 } as const;
/** A job that is tried again finds the parts of its last attempt for so long. */
const MEMORY_SECONDS = 86_400;
/** A Redis that is away is waited for so long. */
const WITHDRAW_MS = 5_000;
/** How often the state of parts is read, in case their events were lost. */
const LOOK_MS = 5_000;

type PartEnd =
  | { readonly ok: true; readonly result: PartResult }
  | { readonly ok: false; readonly error: WavepoolError };

const ENDS: EndReader<PartEnd> = {
  completed: (returnValue) => {
    const { data } = PartResult.safeParse(returnValue);
    if (data !== undefined) return { ok: true, result: data };
    return failed(new WavepoolError('INTERNAL', 'a part was done by another version'));
  },
  failed: (reason) => {
    const { code, message } = failureOf(reason);
    return failed(new WavepoolError(code, message));
  },
  removed: () => failed(new WavepoolError('WORKER_GONE', 'a part of the job was removed')),
};

function failed(error: WavepoolError): PartEnd {
  return { ok: false, error };
}

export interface PartLineOptions {
  readonly address: RedisAddress;
  readonly model: string;
  readonly jobId: string;
  readonly priority: number;
}

export class PartLine {
  readonly #options: PartLineOptions;
  readonly #connection: Redis;
  readonly #queue: Queue<PartData>;
  readonly #ends: EndTracker<PartEnd>;
  readonly #open = new Map<string, PartData>();
  readonly #partsKey: string;
  #stream: EventStream | undefined;
  #looking: NodeJS.Timeout | undefined;
  #count = 0;

  private constructor(options: PartLineOptions, connection: Redis) {
    const { model, jobId } = options;
    const name = partQueueOf(model);
    this.#options = options;
    this.#connection = connection;
    this.#partsKey = jobPartsKey(connection, queueNameOf(model), jobId);
    this.#queue = new Queue(name, {
      connection,
      prefix: queuePrefix(connection),
      streams: { events: { maxLen: EVENTS_KEPT } },
    });
    // Commands report their own errors.
    this.#queue.on('error', () => undefined);
    this.#ends = new EndTracker({
      read: (ids) => readJobEnds(connection, name, ids, ENDS),
      tell: () => undefined,
    });
  }

  /**
   * What an attempt that died has left is taken back.
   * @throws {WavepoolError} REDIS_UNAVAILABLE
   */
  static async open(options: PartLineOptions): Promise<PartLine> {
    const { address, model } = options;
    const connection = openConnection(address, { role: 'patient', name: 'parts' });
    await connect(connection, address);
    const line = new PartLine(options, connection);
    try {
      line.#stream = await EventStream.open({
        address,
        queue: partQueueOf(model),
        onEvents: (events) => line.#hear(events),
        onGap: () => line.#look(),
        // What was missed is found by looking.
        onError: () => undefined,
      });
      line.#looking = setInterval(() => line.#look(), LOOK_MS).unref();
      for (const id of await connection.smembers(line.#partsKey)) await line.#withdraw(id);
      await connection.del(line.#partsKey);
      return line;
    } catch (error) {
      await line.close();
      throw error;
    }
  }

  /**
   * Resolves with what the part gave.
   * @throws {WavepoolError} why it failed; the signal's reason
   */
  async run(part: PartData, signal: AbortSignal): Promise<PartResult> {
    signal.throwIfAborted();
    const { jobId, priority } = this.#options;
    const id = `${jobId}~${part.submittedAt.toString(36)}~${this.#count}`;
    this.#count += 1;
    this.#open.set(id, part);
    await this.#connection
      .multi()
      .sadd(this.#partsKey, id)
      .expire(this.#partsKey, MEMORY_SECONDS)
      .exec();
    await this.#queue.add('part', part, {
      jobId: id,
      priority,
      // The job has its own attempts.
      attempts: 1,
      removeOnComplete: KEPT,
      removeOnFail: KEPT,
    });
    const end = await this.#ends.waitForEnd(id, signal);
    this.#open.delete(id);
    await this.#forget(id);
    if (end.ok) return end.result;
    throw end.error;
  }

  /** Takes back what has not ended, unless Redis is away: then it ends for nobody. Never rejects. */
  async close(): Promise<void> {
    clearInterval(this.#looking);
    this.#stream?.close();
    const withdrawn = Promise.allSettled([...this.#open.keys()].map((id) => this.#withdraw(id)));
    const enough = new AbortController();
    const late = delay(WITHDRAW_MS, undefined, { signal: enough.signal }).catch(() => undefined);
    await Promise.race([withdrawn, late]);
    enough.abort();
    closeConnection(this.#connection);
    await this.#queue.close().catch(() => undefined);
  }

  async #withdraw(id: string): Promise<void> {
    const job = await this.#queue.getJob(id);
    if (job !== undefined && (await this.#queue.remove(id)) !== 1) {
      // Its worker has it.
      await markCancelled(this.#connection, this.#queue.name, id, job.data.submittedAt);
      await announceCancel(this.#connection, this.#queue.name, id);
    }
    await this.#connection.srem(this.#partsKey, id);
  }

  /** What a part gave is the job's now. */
  async #forget(id: string): Promise<void> {
    await this.#queue.remove(id);
    await this.#connection.srem(this.#partsKey, id);
  }

  /** A Redis that is away is asked the next time. */
  #look(): void {
    this.#ends.lookAgain().catch(() => undefined);
  }

  #hear(events: readonly StreamEvent[]): void {
    for (const { id, name, fields } of events) {
      const { jobId, returnvalue, failedReason = '' } = fields;
      if (jobId === undefined || !this.#open.has(jobId)) continue;
      if (name === 'completed') this.#ends.hear(jobId, id, ENDS.completed(parseJson(returnvalue)));
      else if (name === 'failed') this.#ends.hear(jobId, id, ENDS.failed(failedReason));
      else if (name === 'removed') this.#ends.hear(jobId, id, ENDS.removed());
    }
  }
}

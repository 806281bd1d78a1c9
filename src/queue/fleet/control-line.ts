/** A line to one worker: commands go into its control queue, their ends come back through the queue's event stream. */

import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { type ErrorCode, WavepoolError } from '../../core/errors.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { type ControlJob, ControlResult } from '../../core/worker/control.ts';
import { EndTracker } from '../events/end-tracker.ts';
import type { StreamEvent } from '../events/event-history.ts';
import { EventStream } from '../events/event-stream.ts';
import { type EndReader, readJobEnds } from '../events/job-ends.ts';
import { failureOf } from '../jobs/failures.ts';
import type { RedisAddress } from '../redis/connection.ts';
import { controlQueueOf, controlQueuesKey, queuePrefix } from '../redis/queue-names.ts';

/** How a command ended. */
export type ControlEnd =
  | { readonly ok: true; readonly result: ControlResult }
  | { readonly ok: false; readonly code: ErrorCode; readonly message: string };

/** Whoever asked reads the end at once; later it only serves whoever looks for what happened. */
const KEPT = { age: 600, count: 100 } as const;
const ENDS: EndReader<ControlEnd> = {
  completed: (returnValue) => {
    const { data } = ControlResult.safeParse(returnValue);
    if (data !== undefined) return { ok: true, result: data };
    return failure('INTERNAL', 'the worker answered in the words of another version');
  },
  failed: (reason) => ({ ok: false, ...pick(failureOf(reason)) }),
  removed: () => failure('WORKER_GONE', 'its commands were removed'),
};

function pick({ code, message }: { code: ErrorCode; message: string }) {
  return { code, message };
}

function failure(code: ErrorCode, detail: string): ControlEnd {
  return { ok: false, ...pick(new WavepoolError(code, detail)) };
}

export interface ControlLineOptions {
  readonly address: RedisAddress;
  /** For single commands; stays open for as long as the line is used. */
  readonly connection: Redis;
  readonly worker: string;
}

export class ControlLine implements AsyncDisposable {
  readonly #worker: string;
  readonly #connection: Redis;
  readonly #queue: Queue<ControlJob>;
  readonly #ends: EndTracker<ControlEnd>;
  #stream: EventStream | undefined;

  private constructor({ connection, worker }: ControlLineOptions) {
    const name = controlQueueOf(worker);
    this.#worker = worker;
    this.#connection = connection;
    this.#queue = new Queue(name, { connection, prefix: queuePrefix(connection) });
    // Commands report their own errors.
    this.#queue.on('error', () => undefined);
    this.#ends = new EndTracker({
      read: (ids) => readJobEnds(connection, name, ids, ENDS),
      tell: () => undefined,
    });
  }

  /**
   * Every end after this call is heard.
   * @throws {WavepoolError} REDIS_UNAVAILABLE
   */
  static async open(options: ControlLineOptions): Promise<ControlLine> {
    const line = new ControlLine(options);
    line.#stream = await EventStream.open({
      address: options.address,
      queue: controlQueueOf(options.worker),
      onEvents: (events) => line.#hear(events),
      onGap: () => void line.lookAgain(),
      // What was missed is found by looking.
      onError: () => undefined,
    });
    return line;
  }

  /** Behind every earlier command to this worker. */
  async add(id: string, job: ControlJob): Promise<void> {
    await this.#connection.zadd(controlQueuesKey(this.#connection), Date.now(), this.#worker);
    const kept = { removeOnComplete: KEPT, removeOnFail: KEPT, attempts: 1 };
    await this.#queue.add(job.kind, job, { jobId: id, ...kept });
  }

  /** Rejects with the signal's reason when it aborts. */
  waitForEnd(id: string, signal: AbortSignal): Promise<ControlEnd> {
    return this.#ends.waitForEnd(id, signal);
  }

  /** For ends that the stream did not tell; a Redis that is away is asked the next time. */
  async lookAgain(): Promise<void> {
    await this.#ends.lookAgain().catch(() => undefined);
  }

  /** Takes a command back that waits; has the worker stop waiting with one that it has taken up. */
  async withdraw(id: string): Promise<void> {
    if ((await this.#queue.remove(id)) === 1) return;
    await this.add(`${id}~withdrawal`, { kind: 'withdrawal', id });
  }

  /** Removes the queue with all that is in it: nobody will ever take it up. */
  async abandon(): Promise<void> {
    await removeControlQueue(this.#connection, this.#worker);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stream?.close();
    await this.#queue.close();
  }

  #hear(events: readonly StreamEvent[]): void {
    for (const { id, name, fields } of events) {
      const { jobId, returnvalue, failedReason = '' } = fields;
      if (jobId === undefined) continue;
      if (name === 'completed') this.#ends.hear(jobId, id, ENDS.completed(parseJson(returnvalue)));
      else if (name === 'failed') this.#ends.hear(jobId, id, ENDS.failed(failedReason));
      else if (name === 'removed') this.#ends.hear(jobId, id, ENDS.removed());
    }
  }
}

/** For a worker that is gone: no later process has its id. */
export async function removeControlQueue(connection: Redis, worker: string): Promise<void> {
  const queue = new Queue(controlQueueOf(worker), {
    connection,
    prefix: queuePrefix(connection),
    skipMetasUpdate: true,
  });
  queue.on('error', () => undefined);
  try {
    await queue.obliterate({ force: true });
    await connection.zrem(controlQueuesKey(connection), worker);
  } finally {
    await queue.close();
  }
}

/**
 * Finds the ends of jobs that webhooks are to be told of. Producers put such jobs into an index before they add them
 * (`src/queue/webhooks/webhook-jobs.ts`). The event streams of their queues tell when one has ended; the position in each stream
 * is kept in Redis. The index is also compared with the states of the jobs each minute, because events can be lost.
 *
 * A job leaves the index after its delivery is in its queue. If a process dies in between, the next
 * one does it again, which adds nothing: the id of the delivery follows from the end.
 */
import { randomUUID } from 'node:crypto';
import type { Queue } from 'bullmq';
import type { StreamId } from '../../core/http/event-position.ts';
import type { JobId } from '../../core/job/job.ts';
import type { Logger } from '../../core/logger.ts';
import { readEventPage } from '../../queue/events/event-history.ts';
import { JOB_END_READER, readJobEnds, readLastEventId } from '../../queue/events/job-ends.ts';
import { readKnownModels } from '../../queue/jobs/known-models.ts';
import type { openConnection } from '../../queue/redis/connection.ts';
import { queueNameOf, webhookCursorsKey, webhookTurnKey } from '../../queue/redis/queue-names.ts';
import type { WebhookDeliveries } from '../../queue/webhooks/webhook-deliveries.ts';
import {
  hasPendingWebhooks,
  type PendingWebhook,
  pendingAmong,
  pendingPage,
  settlePending,
} from '../../queue/webhooks/webhook-jobs.ts';

const RECONCILE_MS = 60_000;
/** A turn lasts this part of the time between two looks, so that it ends before the next look. */
const TURN = 0.9;
const PAGE = 1_000;
const CHUNK = 500;
/** A job may be in the index for this long before it is in its queue. */
const NOT_ADDED_YET_MS = 60_000;
const LAST = '+' as StreamId; // What XRANGE calls the end of a stream.

export interface WebhookFollowerOptions {
  readonly connection: ReturnType<typeof openConnection>;
  readonly queueOf: (name: string) => Queue;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly deliveries: WebhookDeliveries;
  /** Time between two looks. */
  readonly followMs: number;
}

export class WebhookFollower {
  readonly #options: WebhookFollowerOptions;
  readonly #logger: Logger;
  readonly #id = randomUUID();
  readonly #timer: NodeJS.Timeout;
  #reconciledAt = 0;
  #looking: Promise<void> | undefined;
  #closed = false;

  constructor(options: WebhookFollowerOptions) {
    this.#options = options;
    this.#logger = options.logger;
    this.#timer = setInterval(() => this.#look(), options.followMs).unref();
    this.#look();
  }

  /** Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#looking;
  }

  /** While Redis is away, only one look waits for it, instead of one more each second. */
  #look(): void {
    this.#looking ??= this.#takeTurn()
      .catch((err: unknown) => {
        if (!this.#closed) this.#logger.warn({ err }, 'ends could not be told to webhooks');
      })
      .finally(() => {
        this.#looking = undefined;
      });
  }

  /** One process at a time is enough; two do no harm. */
  async #takeTurn(): Promise<void> {
    const { connection, now, followMs } = this.#options;
    const turnMs = Math.floor(followMs * TURN);
    const turn = await connection.set(webhookTurnKey(connection), this.#id, 'PX', turnMs, 'NX');
    if (turn === null) return;
    const isDue = now() - this.#reconciledAt >= RECONCILE_MS;
    for (const model of await readKnownModels(connection)) {
      const queue = queueNameOf(model);
      if (!(await hasPendingWebhooks(connection, queue))) continue;
      await this.#follow(queue);
      if (isDue) await this.#reconcile(queue);
    }
    if (isDue) this.#reconciledAt = now();
  }

  async #follow(queue: string): Promise<void> {
    const { connection } = this.#options;
    const stored = await connection.hget(webhookCursorsKey(connection), queue);
    let cursor = stored === null ? await this.#restart(queue) : (stored as StreamId); // Written below.
    for (;;) {
      const range = { after: cursor, upTo: LAST, count: PAGE };
      const { events, complete } = await readEventPage(connection, queue, range);
      if (!complete) {
        cursor = await this.#restart(queue);
        continue;
      }
      const ended = events.filter(({ name }) => name === 'completed' || name === 'failed');
      const ids = [...new Set(ended.flatMap(({ fields: { jobId } }) => jobId ?? []))];
      for (const pending of await pendingAmong(connection, queue, ids)) {
        await this.#settle(queue, pending);
      }
      const last = events.at(-1);
      if (last === undefined) return;
      cursor = last.id;
      await connection.hset(webhookCursorsKey(connection), queue, cursor);
    }
  }

  /** For lost events, or a first look: the states of the jobs tell what happened up to the position that is returned. */
  async #restart(queue: string): Promise<StreamId> {
    const { connection } = this.#options;
    const place = (await readLastEventId(connection, queue)) as StreamId; // As Redis writes it.
    await this.#reconcile(queue);
    await connection.hset(webhookCursorsKey(connection), queue, place);
    return place;
  }

  async #reconcile(queue: string): Promise<void> {
    const { connection, now } = this.#options;
    for (let start = 0; ; ) {
      const page = await pendingPage(connection, queue, start, CHUNK);
      const ids = page.map(({ id }) => id);
      const { ends } = await readJobEnds(connection, queue, ids, JOB_END_READER);
      for (const pending of page) {
        const end = ends.get(pending.id);
        const isGone = end?.kind === 'removed' && now() - Number(pending.score) > NOT_ADDED_YET_MS;
        const left = isGone
          ? await settlePending(connection, queue, pending)
          : end !== undefined && end.kind !== 'removed' && (await this.#settle(queue, pending));
        if (!left) start += 1;
      }
      if (page.length < CHUNK) return;
    }
  }

  /** Whether the job has left the index. */
  async #settle(queue: string, pending: PendingWebhook): Promise<boolean> {
    const { connection, queueOf } = this.#options;
    const bull = queueOf(queue);
    const job = await bull.getJob(pending.id);
    if (job === undefined || !(await this.#tell(bull, job, pending.id))) return false;
    return settlePending(connection, queue, pending);
  }

  /** A job whose data cannot be read here, because it is of another version, must not hold up the others. */
  async #tell(bull: Queue, job: Parameters<WebhookDeliveries['tell']>[1], id: JobId) {
    try {
      return await this.#options.deliveries.tell(bull, job, id);
    } catch (err) {
      if (!isInvalid(err)) throw err;
      this.#logger.warn({ err, jobId: id }, 'the end of a job cannot be told');
      return true;
    }
  }
}

function isInvalid(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'INVALID_REQUEST';
}

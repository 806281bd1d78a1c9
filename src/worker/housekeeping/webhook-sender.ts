/**
 * Sends deliveries, signed as Standard Webhooks (standardwebhooks.com) says. A status of 200 to 299 is a success. After any
 * other the delivery is tried again with growing pauses, except after 410, which means that the receiver is gone for good. A
 * delivery to a host that has enough under way is postponed, and the worker goes on with others.
 */
import { DelayedError, type Job, UnrecoverableError, Worker } from 'bullmq';
import { Webhook } from 'standardwebhooks';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { type DeliveryAttempt, DeliveryData } from '../../core/http/webhook-message.ts';
import type { Logger } from '../../core/logger.ts';
import { packageVersion } from '../../core/package-version.ts';
import type { WebhookLimits } from '../../core/webhook.ts';
import type { openConnection } from '../../queue/redis/connection.ts';
import { queuePrefix, WEBHOOK_QUEUE } from '../../queue/redis/queue-names.ts';
import type { WebhookSecrets } from '../../queue/webhooks/webhook-secrets.ts';
import { guardedPost } from '../../storage/guarded-post.ts';

const CONCURRENT = 32;
const GONE = 410;
const BACKOFF_FACTOR = 4;
const MAX_BACKOFF_MS = 6 * 3_600_000;
/** The pause before a postponed delivery is tried again; it doubles each time, up to the second value. */
const FIRST_PUT_OFF_MS = 500;
const MAX_PUT_OFF_MS = 60_000;

export interface WebhookSenderOptions {
  readonly connection: ReturnType<typeof openConnection>;
  readonly logger: Logger;
  readonly secrets: WebhookSecrets;
  readonly limits: WebhookLimits;
}

/** A failed attempt after which the receiver may have said when to try again. */
class RetryLaterError extends Error {
  readonly afterMs: number;

  constructor(message: string, afterMs: number) {
    super(message);
    this.afterMs = afterMs;
  }
}

/** Bounds the deliveries that are under way to one host, so that a slow one does not take the places of all others. */
class HostLimit {
  readonly #limit: number;
  readonly #busy = new Map<string, number>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** @returns what to call when the delivery is over; undefined when the host has enough to do */
  enter(host: string): (() => void) | undefined {
    const busy = this.#busy.get(host) ?? 0;
    if (busy >= this.#limit) return undefined;
    this.#busy.set(host, busy + 1);
    return () => {
      const left = (this.#busy.get(host) ?? 1) - 1;
      if (left === 0) this.#busy.delete(host);
      else this.#busy.set(host, left);
    };
  }
}

export class WebhookSender {
  readonly #options: WebhookSenderOptions;
  readonly #hosts: HostLimit;
  readonly #worker: Worker;

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
    const { connection, logger, limits } = options;
    this.#hosts = new HostLimit(limits.perHost);
    this.#worker = new Worker(WEBHOOK_QUEUE, (job, token = '') => this.#send(job, token), {
      connection,
      prefix: queuePrefix(connection),
      concurrency: CONCURRENT,
      maxStalledCount: 1_000,
      lockDuration: limits.lockMs,
      stalledInterval: limits.lockMs,
      settings: {
        backoffStrategy: (attemptsMade, _type, error) =>
          backoffMs(limits.backoffMs, attemptsMade, error),
      },
    });
    this.#worker.on('error', (err) => logger.debug({ err }, 'webhooks'));
  }

  /** Waits for the attempts that are under way. Idempotent. */
  async close(): Promise<void> {
    await this.#worker.close();
  }

  async #send(job: Job, token: string): Promise<{ status: number }> {
    const delivery = DeliveryData.parse(job.data);
    const leave = this.#hosts.enter(new URL(delivery.url).host);
    if (leave === undefined) {
      const timesPutOff = Math.max(0, job.attemptsStarted - job.attemptsMade - 1);
      await job.moveToDelayed(Date.now() + putOffMs(timesPutOff), token);
      throw new DelayedError();
    }
    try {
      return await this.#attempt(job, delivery);
    } finally {
      leave();
    }
  }

  async #attempt(job: Job, { url, body, tenant }: DeliveryData): Promise<{ status: number }> {
    const { limits } = this.#options;
    const at = new Date();
    const headers = await this.#headers(String(job.id), at, tenant, body);
    const started = performance.now();
    const tell = (status: number | null, error: string | null) =>
      this.#log(job, { at, status, error, durationMs: Math.round(performance.now() - started) });
    const answer = await guardedPost(url, { body, headers }, limits).catch(
      async (thrown: unknown) => {
        const { code, message } = toWavepoolError(thrown);
        const text = code === 'FORBIDDEN' ? `${code}: ${message}` : causeOf(thrown);
        await tell(null, text);
        if (thrown instanceof WavepoolError) throw new UnrecoverableError(text);
        throw new Error(text, { cause: thrown });
      },
    );
    const { status, retryAfter } = answer;
    if (status >= 200 && status < 300) {
      await tell(status, null);
      return { status };
    }
    const text = `the answer is status ${status}`;
    await tell(status, text);
    if (status === GONE) throw new UnrecoverableError(text);
    throw new RetryLaterError(text, secondsOf(retryAfter) * 1_000);
  }

  async #headers(id: string, at: Date, tenant: string, body: string) {
    const secrets = await this.#options.secrets.of(tenant);
    return {
      'content-type': 'application/json',
      'user-agent': `wavepool/${packageVersion()}`,
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': secrets
        .map((secret) => new Webhook(secret).sign(id, at, body))
        .join(' '),
    };
  }

  /** Writes the attempt into the job's log. If that fails, the delivery still counts. */
  async #log(
    job: Job,
    { at, ...attempt }: Omit<DeliveryAttempt, 'at'> & { at: Date },
  ): Promise<void> {
    const line: DeliveryAttempt = { at: at.toISOString(), ...attempt };
    await job.log(JSON.stringify(line)).catch((err: unknown) => {
      this.#options.logger.debug({ err }, 'an attempt could not be written down');
    });
  }
}

/** A random time between half of `ms` and `ms`, so that deliveries that failed together are not tried together again. */
function jittered(ms: number): number {
  return Math.round(ms * (0.5 + Math.random() / 2));
}

function backoffMs(firstMs: number, attemptsMade: number, error: Error | undefined): number {
  const grown = firstMs * BACKOFF_FACTOR ** (attemptsMade - 1);
  const asked = error instanceof RetryLaterError ? error.afterMs : 0;
  return Math.max(jittered(Math.min(grown, MAX_BACKOFF_MS)), Math.min(asked, MAX_BACKOFF_MS));
}

function putOffMs(timesPutOff: number): number {
  return jittered(Math.min(FIRST_PUT_OFF_MS * 2 ** timesPutOff, MAX_PUT_OFF_MS));
}

/** Reads the form in seconds only. A date would depend on the receiver's clock. */
function secondsOf(retryAfter: string | undefined): number {
  return retryAfter !== undefined && /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) : 0;
}

function causeOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  return 'code' in thrown ? String(thrown.code) : thrown.message;
}

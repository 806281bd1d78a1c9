/** Where a worker takes commands about its models: a queue of its own, which no other process reads. */
import { type Job, Worker } from 'bullmq';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { parseRequestPart } from '../../core/http/problem.ts';
import type { Logger } from '../../core/logger.ts';
import { type ControlCommand, ControlJob, type ControlResult } from '../../core/worker/control.ts';
import { toQueueError } from '../../queue/jobs/failures.ts';
import { openConnection, type RedisAddress } from '../../queue/redis/connection.ts';
import { controlQueueOf, queuePrefix } from '../../queue/redis/queue-names.ts';

/** Commands that wait for their models hold up nobody: only this many at once are taken from Redis. */
const CONCURRENCY = 1_000;
const LOCK_DURATION_MS = 60_000;

const NOTHING: ControlResult = { models: [], notFound: [] };

export interface ControlListenerOptions {
  readonly address: RedisAddress;
  readonly workerId: string;
  /** Called in the order in which commands were sent; the signal ends a wait for the model. */
  readonly run: (command: ControlCommand, signal: AbortSignal) => Promise<ControlResult>;
  readonly logger: Logger;
}

export class ControlListener {
  readonly #options: ControlListenerOptions;
  readonly #connection: ReturnType<typeof openConnection>;
  readonly #worker: Worker<unknown, ControlResult>;
  readonly #running = new Map<string, AbortController>();

  private constructor(options: ControlListenerOptions) {
    this.#options = options;
    const { address, workerId, logger } = options;
    this.#connection = openConnection(address, { role: 'patient', name: 'control' });
    this.#worker = new Worker(controlQueueOf(workerId), (job: Job) => this.#process(job), {
      connection: this.#connection,
      prefix: queuePrefix(this.#connection),
      autorun: false,
      concurrency: CONCURRENCY,
      lockDuration: LOCK_DURATION_MS,
      // What was under way when this process was lost is not begun again.
      maxStalledCount: 0,
    });
    this.#worker.on('error', (err) => logger.warn({ err }, 'control queue error'));
  }

  /** Resolves when commands are taken. */
  static async open(options: ControlListenerOptions): Promise<ControlListener> {
    const listener = new ControlListener(options);
    await listener.#worker.waitUntilReady();
    listener.#worker.run().catch((err: unknown) => {
      options.logger.error({ err }, 'the control queue reader stopped');
    });
    return listener;
  }

  /** Takes no more commands, ends waits for models, and waits for what has begun. */
  async close(): Promise<void> {
    const reason = new WavepoolError('SHUTTING_DOWN', 'the worker is ending');
    const closed = this.#worker.close();
    for (const running of this.#running.values()) running.abort(reason);
    await closed;
    this.#connection.disconnect();
  }

  /** Until its first `await` it is called in the order of the queue. */
  async #process(job: Job): Promise<ControlResult> {
    const { run, logger } = this.#options;
    const id = String(job.id);
    try {
      const sent = parseRequestPart(ControlJob, job.data, 'command');
      if (sent.kind === 'withdrawal') {
        this.#running.get(sent.id)?.abort(new WavepoolError('CANCELLED', 'the command'));
        return NOTHING;
      }
      const withdrawal = new AbortController();
      this.#running.set(id, withdrawal);
      const { command } = sent;
      logger.info({ command }, 'command');
      return await run(command, withdrawal.signal);
    } catch (thrown) {
      const error = toWavepoolError(thrown);
      if (error.code === 'INTERNAL') logger.error({ err: thrown }, 'command failed unexpectedly');
      else logger.info({ code: error.code }, error.message);
      throw toQueueError(error);
    } finally {
      this.#running.delete(id);
    }
  }
}

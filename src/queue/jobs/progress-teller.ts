/**
 * Tells how the jobs of a worker's queue go on: as BullMQ's `updateProgress` does, with one command for all jobs that have
 * something to tell in a turn of the event loop.
 */
import type { Redis } from 'ioredis';
import type { JobProgress } from '../../core/job/job.ts';
import { bullKey } from '../redis/queue-names.ts';
import { RedisScript } from '../redis/redis-script.ts';

/**
 *   KEYS[1] events  KEYS[2] meta
 *   ARGV[1] what the keys of the queue begin with  ARGV[2…] job id, progress as JSON, in turn
 */
const TELL = new RedisScript(`
local most = redis.call('HGET', KEYS[2], 'opts.maxLenEvents') or 10000
for at = 2, #ARGV, 2 do
  local id, progress = ARGV[at], ARGV[at + 1]
  if redis.call('EXISTS', ARGV[1] .. id) == 1 then
    redis.call('HSET', ARGV[1] .. id, 'progress', progress)
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', most, '*', 'event', 'progress', 'jobId', id, 'data', progress)
  end
end
`);

export class ProgressTeller {
  readonly #connection: Redis;
  readonly #queue: string;
  readonly #onError: (error: unknown) => void;
  #waiting: string[] = [];
  #sending: Promise<void> | undefined;

  /** The connection stays the caller's. @param onError told when watchers were not */
  constructor(connection: Redis, queue: string, onError: (error: unknown) => void) {
    this.#connection = connection;
    this.#queue = queue;
    this.#onError = onError;
  }

  /** Lets the server know the script, so that the first progress is not late either. */
  async prepare(): Promise<void> {
    await TELL.load(this.#connection);
  }

  tell(jobId: string, progress: JobProgress): void {
    this.#waiting.push(jobId, JSON.stringify(progress));
    this.#sending ??= new Promise((resolve) => {
      // After all promises that this turn settles.
      process.nextTick(() => {
        this.#send();
        resolve();
      });
    });
  }

  /** What is sent on this connection once this has resolved comes after what was told before. */
  sent(): Promise<void> | undefined {
    return this.#sending;
  }

  #send(): void {
    const told = this.#waiting;
    this.#waiting = [];
    this.#sending = undefined;
    const key = (name: string) => bullKey(this.#connection, this.#queue, name);
    TELL.run(this.#connection, [key('events'), key('meta')], [key(''), ...told]).catch(
      this.#onError,
    );
  }
}

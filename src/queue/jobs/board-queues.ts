/** The queues as BullMQ itself knows them, for a dashboard that is made for BullMQ. Opening one writes nothing. */
import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { ModelId } from '../../core/job/job.ts';
import { queueNameOf, queuePrefix } from '../redis/queue-names.ts';

export class BoardQueues {
  readonly #connection: Redis;
  readonly #queues = new Map<ModelId, Queue>();

  /** @param connection stays open for as long as the queues are used; closing it ends them */
  constructor(connection: Redis) {
    this.#connection = connection;
  }

  of(model: ModelId): Queue {
    const known = this.#queues.get(model);
    if (known !== undefined) return known;
    const queue = new Queue(queueNameOf(model), {
      connection: this.#connection,
      prefix: queuePrefix(this.#connection),
      skipMetasUpdate: true,
    });
    // Commands report their own errors.
    queue.on('error', () => undefined);
    this.#queues.set(model, queue);
    return queue;
  }
}

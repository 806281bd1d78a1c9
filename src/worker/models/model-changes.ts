/** Publishes changes of a worker's models as events in the queues of those models. */
import type { ModelChange } from '../../core/http/events.ts';
import type { Logger } from '../../core/logger.ts';
import type { ModelStatus } from '../../core/worker/status.ts';
import { publishEvent } from '../../queue/events/service-events.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from '../../queue/redis/connection.ts';

export interface ModelChangesOptions {
  readonly address: RedisAddress;
  readonly worker: Pick<ModelChange, 'worker' | 'host' | 'pid'>;
  readonly logger: Logger;
}

export class ModelChanges {
  readonly #options: ModelChangesOptions;
  readonly #connection: ReturnType<typeof openConnection>;
  readonly #published = new Map<string, ModelChange>();
  #last: Promise<void> | undefined;

  private constructor(options: ModelChangesOptions, connection: ReturnType<typeof openConnection>) {
    this.#options = options;
    this.#connection = connection;
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async open(options: ModelChangesOptions): Promise<ModelChanges> {
    const connection = openConnection(options.address, { role: 'fail-fast', name: 'changes' });
    await connect(connection, options.address);
    return new ModelChanges(options, connection);
  }

  /** Publishes what has changed since the last call. */
  publish(model: ModelStatus): void {
    const change = this.#changeOf(model);
    const last = this.#published.get(model.id);
    const type =
      last === undefined || differ(last, change, STATE_FIELDS) ? 'model.changed' : 'slot.changed';
    if (last !== undefined && type === 'slot.changed' && !differ(last, change, SLOT_FIELDS)) return;
    this.#published.set(model.id, change);
    // One connection keeps the order of the calls. The next heartbeat has what could not be published.
    const event = { type, model: model.id, data: change } as const;
    this.#last = publishEvent(this.#connection, event).catch((err: unknown) => {
      this.#options.logger.debug({ err, model: model.id }, 'a change could not be told');
    });
  }

  /** Waits until the last change has been published. Idempotent. */
  async close(): Promise<void> {
    await this.#last;
    closeConnection(this.#connection);
  }

  #changeOf(model: ModelStatus): ModelChange {
    const { state, generation, loaded, failure, slots } = model;
    const { activeSlots, queuedRequests, waitingManagers } = model;
    return {
      ...this.#options.worker,
      ...{ state, generation, loaded, failure, slots },
      ...{ activeSlots, queuedRequests, waitingManagers },
    };
  }
}

const STATE_FIELDS = [
  'state',
  'generation',
  'loaded',
  'failure',
  'slots',
  'waitingManagers',
] as const satisfies readonly (keyof ModelChange)[];
const SLOT_FIELDS = [
  'activeSlots',
  'queuedRequests',
] as const satisfies readonly (keyof ModelChange)[];

function differ(a: ModelChange, b: ModelChange, fields: readonly (keyof ModelChange)[]): boolean {
  return fields.some((field) => JSON.stringify(a[field]) !== JSON.stringify(b[field]));
}

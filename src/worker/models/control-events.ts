/** Tells of the models of a worker as they change, in the queues of those models. */
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
  readonly #told = new Map<string, ModelChange>();
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

  /** Tells what is new since the last call. */
  tell(model: ModelStatus): void {
    const change = this.#changeOf(model);
    const told = this.#told.get(model.id);
    const type =
      told === undefined || differ(told, change, STATE_FIELDS) ? 'model.changed' : 'slot.changed';
    if (told !== undefined && type === 'slot.changed' && !differ(told, change, SLOT_FIELDS)) return;
    this.#told.set(model.id, change);
    // On one connection, so in the order of the calls. What cannot be told is in the next heartbeat all the same.
    const event = { type, model: model.id, data: change } as const;
    this.#last = publishEvent(this.#connection, event).catch((err: unknown) => {
      this.#options.logger.debug({ err, model: model.id }, 'a change could not be told');
    });
  }

  /** Lets the last change be told. Idempotent. */
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

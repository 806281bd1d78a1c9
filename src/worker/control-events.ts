/** Tells of the models of a worker as they change, in the queues of those models. */
import type { ModelChange } from '../core/events.ts';
import type { Logger } from '../core/logger.ts';
import type { ModelStatus } from '../core/status.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from '../queue/connection.ts';
import { publishEvent } from '../queue/service-events.ts';

/** Slots are taken and freed with each batch: more often than this nobody can look. */
const SLOT_INTERVAL_MS = 1_000;

export interface ModelChangesOptions {
  readonly address: RedisAddress;
  readonly worker: Pick<ModelChange, 'worker' | 'host' | 'pid'>;
  readonly logger: Logger;
}

interface Told {
  last: ModelChange;
  /** Told at the end of the interval. */
  pending: ModelChange | undefined;
  timer: NodeJS.Timeout | undefined;
}

export class ModelChanges {
  readonly #options: ModelChangesOptions;
  readonly #connection: ReturnType<typeof openConnection>;
  readonly #told = new Map<string, Told>();

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

  /** Whether this is a change of state, slot count or managers, and not only of the load. */
  tell(model: ModelStatus): boolean {
    const change = this.#changeOf(model);
    const told = this.#told.get(model.id);
    if (told === undefined || differ(told.last, change, STATE_FIELDS)) {
      clearTimeout(told?.timer);
      this.#told.set(model.id, { last: change, pending: undefined, timer: undefined });
      this.#publish('model.changed', model.id, change);
      return true;
    }
    if (differ(told.pending ?? told.last, change, SLOT_FIELDS))
      this.#tellSoon(model.id, told, change);
    return false;
  }

  /** Idempotent. */
  close(): void {
    for (const { timer } of this.#told.values()) clearTimeout(timer);
    closeConnection(this.#connection);
  }

  #tellSoon(model: string, told: Told, change: ModelChange): void {
    told.pending = change;
    told.timer ??= setTimeout(() => {
      const { pending } = told;
      told.timer = undefined;
      told.pending = undefined;
      if (pending === undefined || !differ(told.last, pending, SLOT_FIELDS)) return;
      told.last = pending;
      this.#publish('slot.changed', model, pending);
    }, SLOT_INTERVAL_MS).unref();
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

  /** On one connection, so in the order of the calls. What cannot be told is in the next heartbeat all the same. */
  #publish(type: 'model.changed' | 'slot.changed', model: string, data: ModelChange): void {
    publishEvent(this.#connection, { type, model, data }).catch((err: unknown) => {
      this.#options.logger.debug({ err, model }, 'a change could not be told');
    });
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

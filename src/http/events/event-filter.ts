/** Which events a reader wants. */
import type { EventsQuery } from '../../core/http/events.ts';
import type { ModelId } from '../../core/job/job.ts';
import type { FeedEvent } from './feed-event.ts';

export class EventFilter {
  /** Readers with the same key want the same. */
  readonly key: string;
  readonly #models: ReadonlySet<ModelId> | undefined;
  readonly #types: ReadonlySet<string> | undefined;

  constructor({ model, types }: Pick<EventsQuery, 'model' | 'types'> = {}) {
    this.#models = model && new Set(model);
    this.#types = types && new Set(types);
    this.key = JSON.stringify([model?.toSorted(), types?.toSorted()]);
  }

  wantsModel(model: ModelId): boolean {
    return this.#models?.has(model) ?? true;
  }

  wants({ model, type }: FeedEvent): boolean {
    if (!this.wantsModel(model)) return false;
    return this.#types === undefined || this.#types.has(type) || this.#types.has(kindOf(type));
  }
}

/** `job.failed` is one of `job.*`. */
function kindOf(type: string): string {
  return `${type.slice(0, type.indexOf('.'))}.*`;
}

/** What tests of batches stand on: queues, a store, and a reader of the batches' events. */
import { type BatchEvent, parseBatchEvent } from '../../src/core/batch.ts';
import { createLogger } from '../../src/core/logger.ts';
import { BatchStore, type BatchStoreOptions, type NewItem } from '../../src/queue/batches.ts';
import { EventStream } from '../../src/queue/event-stream.ts';
import { BATCH_QUEUE } from '../../src/queue/queue-names.ts';
import { QueueRegistry } from '../../src/queue/queue-registry.ts';
import { Housekeeping, type HousekeepingOptions } from '../../src/worker/housekeeping.ts';
import type { TestRedis } from '../support/redis.ts';

export interface BatchFixture extends AsyncDisposable {
  readonly queues: QueueRegistry;
  readonly store: BatchStore;
  /** Resolves with the first event, from the beginning on, that fits; each is given once. */
  event(fits: (event: BatchEvent) => boolean): Promise<BatchEvent>;
  finished(id: string): Promise<BatchEvent>;
  housekeeping(options?: Partial<HousekeepingOptions>): Promise<Housekeeping>;
}

export async function openBatches(
  { address }: TestRedis,
  model: string,
  options: Partial<BatchStoreOptions> = {},
): Promise<BatchFixture> {
  const queues = await QueueRegistry.open({ address, models: [model] });
  const store = new BatchStore({ queues, ...options });
  const heard: BatchEvent[] = [];
  const waiting = new Set<() => void>();
  const stream = await EventStream.open({
    address,
    queue: BATCH_QUEUE,
    onError: () => undefined,
    onGap: () => undefined,
    onEvents: (events) => {
      heard.push(...events.flatMap(({ fields }) => parseBatchEvent(fields) ?? []));
      for (const look of [...waiting]) look();
    },
  });
  const event = (fits: (event: BatchEvent) => boolean): Promise<BatchEvent> =>
    new Promise((resolve) => {
      const look = (): void => {
        const at = heard.findIndex(fits);
        const [found] = at === -1 ? [] : heard.splice(at, 1);
        if (found === undefined) return;
        waiting.delete(look);
        resolve(found);
      };
      waiting.add(look);
      look();
    });
  return {
    queues,
    store,
    event,
    finished: (id) => event((each) => each.id === id && each.finished),
    housekeeping: (more = {}) =>
      Housekeeping.start({ address, logger: createLogger('silent', 'test'), ...more }),
    [Symbol.asyncDispose]: async () => {
      stream.close();
      await store.close();
      await queues.close();
    },
  };
}

/** Inputs `/audio/0.wav`, `/audio/1.wav` … */
export function itemsOf(count: number, more: Partial<NewItem> = {}): NewItem[] {
  return Array.from({ length: count }, (_, at) => ({
    input: { kind: 'path', path: `/audio/${at}.wav` },
    ...more,
  }));
}

/** The number in an input's path. */
export function numberOf(input: { kind: string; path?: string }): number {
  return Number(/(\d+)\.wav$/.exec(input.path ?? '')?.[1]);
}

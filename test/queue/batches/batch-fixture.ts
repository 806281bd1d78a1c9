/** What tests of batches stand on: queues, a store, and a reader of the batches' events. */
import type { z } from 'zod';
import { BatchChangeEvent } from '../../../src/core/http/events.ts';
import { createLogger } from '../../../src/core/logger.ts';
import {
  BatchStore,
  type BatchStoreOptions,
  type NewItem,
} from '../../../src/queue/batches/batches.ts';
import type { StreamEvent } from '../../../src/queue/events/event-history.ts';
import { EventStream } from '../../../src/queue/events/event-stream.ts';
import { toServiceEvent } from '../../../src/queue/events/service-events.ts';
import { QueueRegistry } from '../../../src/queue/queue-registry.ts';
import {
  Housekeeping,
  type HousekeepingOptions,
} from '../../../src/worker/housekeeping/housekeeping.ts';
import type { TestRedis } from '../../support/redis.ts';

type BatchChange = z.infer<typeof BatchChangeEvent>;

export interface BatchFixture extends AsyncDisposable {
  readonly queues: QueueRegistry;
  readonly store: BatchStore;
  /** Resolves with the first event, from the beginning on, that fits; each is given once. */
  event(fits: (event: BatchChange) => boolean): Promise<BatchChange>;
  finished(id: string): Promise<BatchChange>;
  housekeeping(options?: Partial<HousekeepingOptions>): Promise<Housekeeping>;
}

export async function openBatches(
  { address }: TestRedis,
  model: string,
  options: Partial<BatchStoreOptions> = {},
): Promise<BatchFixture> {
  const queues = await QueueRegistry.open({ address, models: [model] });
  const store = new BatchStore({ queues, ...options });
  const heard: BatchChange[] = [];
  const waiting = new Set<() => void>();
  const stream = await EventStream.open({
    address,
    queue: model,
    onError: () => undefined,
    onGap: () => undefined,
    onEvents: (events) => {
      heard.push(...events.flatMap((raw) => changeOf(model, raw) ?? []));
      for (const look of [...waiting]) look();
    },
  });
  const event = (fits: (event: BatchChange) => boolean): Promise<BatchChange> =>
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
    finished: (id) => event((each) => each.batchId === id && each.type === 'batch.finished'),
    housekeeping: (more = {}) =>
      Housekeeping.start({ address, logger: createLogger('silent', 'test'), ...more }),
    [Symbol.asyncDispose]: async () => {
      stream.close();
      await store.close();
      await queues.close();
    },
  };
}

function changeOf(model: string, raw: StreamEvent): BatchChange | undefined {
  return BatchChangeEvent.safeParse(toServiceEvent(model, raw)).data;
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

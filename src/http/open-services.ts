/** Opens what the server stands on, in the usual way: one Redis, one folder for results, one for uploads. */

import type { Logger } from '../core/logger.ts';
import { ApiKeys } from '../queue/api-keys.ts';
import type { AudioQueue } from '../queue/audio-queue.ts';
import { BatchStore } from '../queue/batches.ts';
import { FleetControl } from '../queue/control.ts';
import { JobTenants } from '../queue/job-tenants.ts';
import { readOverview } from '../queue/overview.ts';
import { QueueRegistry, type QueueRegistryOptions } from '../queue/queue-registry.ts';
import { ScheduleStore } from '../queue/schedules.ts';
import { SegmentFeed } from '../queue/segment-feed.ts';
import { Sessions } from '../queue/sessions.ts';
import { readTenantLoads } from '../queue/tenant-loads.ts';
import { LocalResultStore } from '../storage/local-result-store.ts';
import { UploadStore } from '../storage/uploads.ts';
import { EventHub } from './events/event-hub.ts';
import { type Every, everyInterval } from './events/every.ts';
import { createMetrics } from './metrics.ts';
import { QueueLimit } from './queue-limit.ts';
import type { Services } from './services.ts';
import { type HttpSettings, SESSION_LIFE_MS } from './settings.ts';

export interface OpenServicesOptions extends Pick<QueueRegistryOptions, 'address' | 'models'> {
  readonly resultsDir: string;
  readonly uploadsDir: string;
  readonly settings: HttpSettings;
  readonly version: string;
  readonly logger: Logger;
  readonly closing: AbortSignal;
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: (() => number) | undefined;
  /** @defaultValue timers */
  readonly every?: Every | undefined;
}

/**
 * Close the `queues` when the server has ended.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function openServices(options: OpenServicesOptions): Promise<Services> {
  const { address, models, settings, version, logger, closing } = options;
  const { now = Date.now, every = everyInterval } = options;
  const results = await LocalResultStore.open(options.resultsDir, now);
  const uploads = await UploadStore.open(options.uploadsDir, now);
  const metrics = createMetrics({
    overview: () => readOverview(queues.connection, 0),
    loads: async (models) => readTenantLoads(queues.connection, models, tenants),
    now,
  });
  const onOpen = (queue: AudioQueue): void => metrics.observe(queue);
  const queues = await QueueRegistry.open({ address, models, now, onOpen });
  const tenants = new JobTenants(queues.connection);
  const keys = new ApiKeys(queues.connection, now);
  const sessions = new Sessions(queues.connection, SESSION_LIFE_MS);
  const segments = new SegmentFeed(address);
  closing.addEventListener('abort', () => segments.close());
  return {
    queues,
    batches: new BatchStore({ queues, now }),
    control: new FleetControl({ address, connection: queues.connection }),
    results,
    uploads,
    keys,
    sessions,
    schedules: new ScheduleStore(queues.connection),
    events: new EventHub({ queues, every, logger }),
    segments,
    tenants,
    every,
    limit: new QueueLimit(settings.maxQueued, now),
    metrics,
    settings,
    version,
    logger,
    now,
    closing,
  };
}

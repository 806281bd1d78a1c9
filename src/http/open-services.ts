/** Opens the services of a server: over one Redis, with results and uploads in folders or in a bucket. */

import type { Logger } from '../core/logger.ts';
import { NO_S3, type S3Settings } from '../core/s3-settings.ts';
import { NO_TRACING, type Tracing } from '../core/tracing.ts';
import type { WebhookSecret } from '../core/webhook.ts';
import { ApiKeys } from '../queue/access/api-keys.ts';
import { Sessions } from '../queue/access/sessions.ts';
import type { AudioQueue } from '../queue/audio-queue.ts';
import { BatchStore } from '../queue/batches/batches.ts';
import { SegmentFeed } from '../queue/events/segment-feed.ts';
import { FleetControl } from '../queue/fleet/control.ts';
import { readOverview } from '../queue/fleet/overview.ts';
import { LiveLimit } from '../queue/live/live-limit.ts';
import { LiveRelay } from '../queue/live/live-relay.ts';
import { QueueRegistry, type QueueRegistryOptions } from '../queue/queue-registry.ts';
import { ScheduleStore } from '../queue/schedules.ts';
import { JobTenants } from '../queue/tenants/job-tenants.ts';
import { readTenantLoads } from '../queue/tenants/tenant-loads.ts';
import { WebhookDeliveries } from '../queue/webhooks/webhook-deliveries.ts';
import { WebhookSecrets } from '../queue/webhooks/webhook-secrets.ts';
import { openStorage, SERVER_PATIENCE_MS } from '../storage/open-storage.ts';
import { EventBroadcaster, type Every } from './events/event-broadcaster.ts';
import { createMetrics } from './metrics/metrics.ts';
import { QueueLimit } from './queue-limit.ts';
import type { Services } from './services.ts';
import { type HttpSettings, SESSION_LIFE_MS } from './settings.ts';

export interface OpenServicesOptions extends Pick<QueueRegistryOptions, 'address' | 'models'> {
  readonly resultsDir: string;
  readonly uploadsDir: string;
  /** May name a bucket for results and uploads, used in place of the folders. @defaultValue there is none */
  readonly s3?: S3Settings | undefined;
  readonly settings: HttpSettings;
  /** See `WebhookSecretsOptions`. @defaultValue none; then a secret is made and kept in Redis */
  readonly webhookSecrets?: readonly WebhookSecret[] | undefined;
  /** The caller closes it. @defaultValue no tracing */
  readonly tracing?: Tracing | undefined;
  readonly version: string;
  readonly logger: Logger;
  readonly closing: AbortSignal;
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: (() => number) | undefined;
  /** @defaultValue runs timers */
  readonly every?: Every | undefined;
}

/** Its timers keep no process alive. */
const everyInterval: Every = (ms, task) => {
  const timer = setInterval(task, ms).unref();
  return () => clearInterval(timer);
};

/**
 * Close the `queues` when the server has ended.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function openServices(options: OpenServicesOptions): Promise<Services> {
  const { address, models, settings, version, logger, closing, tracing = NO_TRACING } = options;
  const { now = Date.now, every = everyInterval, webhookSecrets: configured = [] } = options;
  const { resultsDir, uploadsDir, s3 = NO_S3 } = options;
  const patienceMs = Math.min(s3.patienceMs, SERVER_PATIENCE_MS);
  const storage = await openStorage({ resultsDir, s3: { ...s3, patienceMs }, now });
  const { results } = storage;
  const uploads = await storage.openUploads(uploadsDir);
  const metrics = createMetrics({
    overview: () => readOverview(queues.connection, 0),
    loads: async (models) => readTenantLoads(queues.connection, models, tenants),
    now,
  });
  const onOpen = (queue: AudioQueue): void => metrics.observe(queue);
  const queues = await QueueRegistry.open({ address, models, now, onOpen, tracing });
  const { connection } = queues;
  const tenants = new JobTenants(connection);
  const keys = new ApiKeys(queues.connection, now);
  const sessions = new Sessions(queues.connection, SESSION_LIFE_MS);
  const segments = new SegmentFeed(address);
  const live = new LiveRelay(address, queues.connection);
  closing.addEventListener('abort', () => {
    segments.close();
    // It never rejects.
    void live.close();
  });
  return {
    queues,
    batches: new BatchStore({ queues, now }),
    control: new FleetControl({ address, connection: queues.connection }),
    webhooks: {
      deliveries: new WebhookDeliveries(connection, now),
      secrets: new WebhookSecrets({ connection, configured, now }),
    },
    results,
    uploads,
    keys,
    sessions,
    schedules: new ScheduleStore(queues.connection),
    events: new EventBroadcaster({ queues, every, logger }),
    segments,
    live,
    liveLimit: new LiveLimit(queues.connection, settings.livePerKey),
    tenants,
    every,
    limit: new QueueLimit(settings.maxQueued, now),
    metrics,
    tracing,
    settings,
    version,
    logger,
    now,
    closing,
  };
}

/** Everything that the handlers of routes use. `openServices` makes it. */
import type { Logger } from '../core/logger.ts';
import type { Tracing } from '../core/tracing.ts';
import type { ApiKeys } from '../queue/access/api-keys.ts';
import type { Sessions } from '../queue/access/sessions.ts';
import type { BatchStore } from '../queue/batches/batches.ts';
import type { SegmentFeed } from '../queue/events/segment-feed.ts';
import type { FleetControl } from '../queue/fleet/control.ts';
import type { LiveLimit } from '../queue/live/live-limit.ts';
import type { LiveRelay } from '../queue/live/live-relay.ts';
import type { QueueRegistry } from '../queue/queue-registry.ts';
import type { ScheduleStore } from '../queue/schedules.ts';
import type { JobTenants } from '../queue/tenants/job-tenants.ts';
import type { WebhookDeliveries } from '../queue/webhooks/webhook-deliveries.ts';
import type { WebhookSecrets } from '../queue/webhooks/webhook-secrets.ts';
import type { ResultStore } from '../storage/result-store.ts';
import type { UploadStore } from '../storage/upload-store.ts';
import type { EventBroadcaster, Every } from './events/event-broadcaster.ts';
import type { Metrics } from './metrics/metrics.ts';
import type { QueueLimit } from './queue-limit.ts';
import type { HttpSettings } from './settings.ts';

export interface Services {
  readonly queues: QueueRegistry;
  readonly batches: BatchStore;
  /** Sends commands about models to workers. */
  readonly control: FleetControl;
  readonly webhooks: { readonly deliveries: WebhookDeliveries; readonly secrets: WebhookSecrets };
  readonly results: ResultStore;
  readonly uploads: UploadStore;
  readonly keys: ApiKeys;
  readonly sessions: Sessions;
  /** Jobs that are added again and again. */
  readonly schedules: ScheduleStore;
  /** Sends the events of all queues to many clients. */
  readonly events: EventBroadcaster;
  readonly segments: SegmentFeed;
  readonly live: LiveRelay;
  /** Must be asked before a live stream is opened. */
  readonly liveLimit: LiveLimit;
  /** Finds the tenants of jobs, to filter events by tenant. */
  readonly tenants: JobTenants;
  /** Runs periodic tasks, such as heartbeats. */
  readonly every: Every;
  /** Must be asked before jobs are added. */
  readonly limit: QueueLimit;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly settings: HttpSettings;
  /** The version of the package. */
  readonly version: string;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Aborts when the server is to end. Endless streams end then. */
  readonly closing: AbortSignal;
}

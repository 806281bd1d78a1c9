/** What the routes stand on. Whoever composes the process makes it; see `openServices` for the usual way. */
import type { Logger } from '../core/logger.ts';
import type { ApiKeys } from '../queue/api-keys.ts';
import type { BatchStore } from '../queue/batches.ts';
import type { QueueRegistry } from '../queue/queue-registry.ts';
import type { Sessions } from '../queue/sessions.ts';
import type { ResultStore } from '../storage/result-store.ts';
import type { UploadStore } from '../storage/uploads.ts';
import type { Metrics } from './metrics.ts';
import type { QueueLimit } from './queue-limit.ts';
import type { HttpSettings } from './settings.ts';

export interface Services {
  readonly queues: QueueRegistry;
  readonly batches: BatchStore;
  readonly results: ResultStore;
  readonly uploads: UploadStore;
  readonly keys: ApiKeys;
  readonly sessions: Sessions;
  /** Asked before jobs are added. */
  readonly limit: QueueLimit;
  readonly metrics: Metrics;
  readonly settings: HttpSettings;
  /** Of the package. */
  readonly version: string;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Aborts when the server is to end: streams that would go on for ever end then. */
  readonly closing: AbortSignal;
}

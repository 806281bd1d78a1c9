/** What webhooks say, and what is known of their deliveries. */
import { z } from 'zod';
import { BatchCounts, BatchId, BatchState } from '../job/batch.ts';
import { JobId, JobOutcome, JobTask, ModelId } from '../job/job.ts';
import { apiSchemas, type WebhookDoc } from '../openapi.ts';
import { FailureResource, JobLinks, JobState, Timestamp } from './api.ts';
import { BatchLinks } from './batch-api.ts';

const Tenant = z.string();

export const JobMessage = z
  .strictObject({
    type: z.enum(['job.completed', 'job.failed', 'job.cancelled']),
    timestamp: Timestamp.meta({ description: 'when it ended' }),
    data: z.strictObject({
      id: JobId,
      batchId: BatchId.nullable(),
      model: ModelId,
      task: JobTask,
      tenant: Tenant,
      state: JobState.extract(['completed', 'failed', 'cancelled']),
      attempts: z.int().min(0),
      createdAt: Timestamp,
      finishedAt: Timestamp,
      outcome: JobOutcome.omit({ resultKey: true }).nullable(),
      failure: FailureResource.nullable(),
      links: JobLinks.meta({ description: 'relative to the address of the server' }),
    }),
  })
  .register(apiSchemas, { id: 'JobMessage' });
export type JobMessage = z.infer<typeof JobMessage>;

export const BatchMessage = z
  .strictObject({
    type: z.literal('batch.finished'),
    timestamp: Timestamp.meta({ description: 'when its last item ended' }),
    data: z.strictObject({
      id: BatchId,
      name: z.string().nullable(),
      model: ModelId,
      task: JobTask,
      tenant: Tenant,
      state: BatchState,
      counts: BatchCounts,
      createdAt: Timestamp,
      finishedAt: Timestamp,
      links: BatchLinks,
    }),
  })
  .register(apiSchemas, { id: 'BatchMessage' });
export type BatchMessage = z.infer<typeof BatchMessage>;

export const WebhookMessage = z.discriminatedUnion('type', [JobMessage, BatchMessage]);
export type WebhookMessage = z.infer<typeof WebhookMessage>;

const SUMMARIES: Readonly<Record<WebhookMessage['type'], string>> = {
  'job.completed': 'A job has its result',
  'job.failed': 'A job failed for good',
  'job.cancelled': 'A job was cancelled',
  'batch.finished': 'All items of a batch have ended',
};

export const WEBHOOK_DOCS: readonly WebhookDoc[] = Object.entries(SUMMARIES).map(
  ([name, summary]) => ({
    ...{ name, summary },
    schema: name === 'batch.finished' ? BatchMessage : JobMessage,
  }),
);

const EventType = z.enum([...JobMessage.shape.type.options, BatchMessage.shape.type.value]);

/** What is told of: the job of a queue, or a batch. */
export const DeliverySubject = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('job'), queue: z.string(), id: JobId }),
  z.strictObject({ kind: z.literal('batch'), id: BatchId }),
]);
export type DeliverySubject = z.infer<typeof DeliverySubject>;

/** A delivery in its queue. The body is sent byte by byte as it stands, in each attempt. */
export const DeliveryData = z.object({
  event: EventType,
  subject: DeliverySubject,
  tenant: Tenant,
  url: z.string(),
  body: z.string(),
});
export type DeliveryData = z.infer<typeof DeliveryData>;

export const DeliveryAttempt = z.strictObject({
  at: Timestamp,
  status: z.int().nullable().meta({ description: 'of the answer; null when there was none' }),
  durationMs: z.number().min(0),
  error: z.string().nullable().meta({ description: 'null when it was delivered' }),
});
export type DeliveryAttempt = z.infer<typeof DeliveryAttempt>;

export const DeliveryState = z.enum(['waiting', 'running', 'delivered', 'failed']);
export type DeliveryState = z.infer<typeof DeliveryState>;

export const DeliveryResource = z
  .strictObject({
    id: z.string().meta({ description: 'the webhook-id of every attempt' }),
    event: EventType,
    subject: z.strictObject({ kind: z.enum(['job', 'batch']), id: JobId }),
    url: z.string().meta({ description: 'without its query, which may hold secrets' }),
    state: DeliveryState,
    attempts: z.array(DeliveryAttempt).meta({ description: 'the latest fifty, oldest first' }),
    nextAttemptAt: Timestamp.nullable(),
    createdAt: Timestamp,
  })
  .register(apiSchemas, { id: 'Delivery' });
export type DeliveryResource = z.infer<typeof DeliveryResource>;

export const DeliveryList = z
  .strictObject({ items: z.array(DeliveryResource) })
  .register(apiSchemas, { id: 'DeliveryList' });
export type DeliveryList = z.infer<typeof DeliveryList>;

export const DeliveryParams = z.strictObject({
  id: z.string().regex(/^msg_[0-9a-f]{32}$/, 'a delivery id is msg_ and 32 hexadecimal digits'),
});

const TenantMember = z
  .string()
  .min(1)
  .max(128)
  .meta({ description: "the server's own secret when left out" })
  .optional();

export const SecretQuery = z.strictObject({ tenant: TenantMember });

export const RotateSecretRequest = z
  .strictObject({
    tenant: TenantMember,
    keepOldMs: z
      .int()
      .min(0)
      .max(30 * 86_400_000)
      .meta({ description: 'for so long deliveries are signed with the old secret, too' })
      .default(86_400_000),
  })
  .register(apiSchemas, { id: 'RotateSecretRequest' });

export const SecretResource = z
  .strictObject({
    tenant: z.string().nullable(),
    source: z.enum(['tenant', 'server', 'configuration']).meta({
      description: "a tenant without a secret of its own has the server's",
    }),
    secrets: z.array(
      z.strictObject({
        secret: z.string(),
        createdAt: Timestamp.nullable().meta({ description: 'null for one of the configuration' }),
        expiresAt: Timestamp.nullable(),
      }),
    ),
  })
  .register(apiSchemas, { id: 'WebhookSecret' });
export type SecretResource = z.infer<typeof SecretResource>;

/** What happens to jobs, batches and models, as the event streams of the HTTP interface tell it. */
import { z } from 'zod';
import { BatchChange, BatchStanding } from '../job/batch.ts';
import { JobId, JobOutcome, JobProgress, ModelId, PartialSegment } from '../job/job.ts';
import { apiSchemas } from '../openapi.ts';
import { ModelStatus } from '../worker/status.ts';
import { FailureResource, JobResource } from './api.ts';
import { BatchResource } from './batch-api.ts';

const Timestamp = z.iso.datetime().meta({ description: 'UTC, ISO 8601, by the clock of Redis' });

const jobEvent = <Type extends string>(type: Type) =>
  z.strictObject({ type: z.literal(type), at: Timestamp, model: ModelId, jobId: JobId });

/** Added, handed back, or about to be tried again. */
export const JobWaitingEvent = jobEvent('job.waiting');
/** Not to be started before some time has passed: as asked for, or between two attempts. */
export const JobDelayedEvent = jobEvent('job.delayed');
/** Picked up by a worker. */
export const JobRunningEvent = jobEvent('job.running');
export const JobProgressEvent = jobEvent('job.progress').extend({ progress: JobProgress });
/** Only in the stream of its job, and only when the job was asked for partials. */
export const JobSegmentEvent = jobEvent('job.segment')
  .omit({ at: true })
  .extend({ segment: PartialSegment });
/** Its worker lost it; it waits again. */
export const JobStalledEvent = jobEvent('job.stalled');
export const JobCompletedEvent = jobEvent('job.completed').extend({
  outcome: JobOutcome.omit({ resultKey: true }),
});
/** For good, cancelled (the code is CANCELLED) or not: no further attempt follows. */
export const JobFailedEvent = jobEvent('job.failed').extend({ failure: FailureResource });
/** The queue no longer knows the job. */
export const JobRemovedEvent = jobEvent('job.removed');
/** Begins the stream of a job, and tells where things stand when events were missed. */
export const JobSnapshotEvent = z.strictObject({
  type: z.literal('job.snapshot'),
  job: JobResource,
});
/** A batch began, or came to another state; told in the queue of its model. */
export const BatchChangeEvent = BatchStanding.extend({
  type: BatchChange,
  at: Timestamp,
  model: ModelId,
});
/** Only in the stream of its batch, at most once a second: items began or ended. */
export const BatchProgressEvent = BatchStanding.extend({
  type: z.literal('batch.progress'),
  at: Timestamp,
  model: ModelId,
});
/** Begins the stream of a batch, and tells where things stand when events were missed. */
export const BatchSnapshotEvent = z.strictObject({
  type: z.literal('batch.snapshot'),
  batch: BatchResource,
});
/** Events of these models' queues were missed: what was derived from earlier ones must be read anew. */
export const StreamResetEvent = z.strictObject({
  type: z.literal('stream.reset'),
  models: z.array(ModelId),
});
/** Data of `model.changed`, at once, and of `slot.changed`, with the heartbeat: the model as one worker has it. */
export const ModelChange = z.strictObject({
  worker: z.uuid(),
  host: z.string(),
  pid: z.int().min(1),
  ...ModelStatus.pick({
    state: true,
    generation: true,
    loaded: true,
    failure: true,
    slots: true,
    activeSlots: true,
    queuedRequests: true,
    waitingManagers: true,
  }).shape,
});
export type ModelChange = z.infer<typeof ModelChange>;

/** What workers publish on the queue of a model; `data` is a ModelChange where the type is one of its two. */
export const CustomEvent = z.strictObject({
  type: z.templateLiteral([z.enum(['model', 'slot']), '.', z.string()]),
  at: Timestamp,
  model: ModelId,
  data: z.record(z.string(), z.unknown()),
});
export type CustomEvent = z.infer<typeof CustomEvent>;

export const ServiceEvent = z
  .union([
    z.discriminatedUnion('type', [
      JobWaitingEvent,
      JobDelayedEvent,
      JobRunningEvent,
      JobProgressEvent,
      JobSegmentEvent,
      JobStalledEvent,
      JobCompletedEvent,
      JobFailedEvent,
      JobRemovedEvent,
      JobSnapshotEvent,
      BatchChangeEvent,
      BatchProgressEvent,
      BatchSnapshotEvent,
      StreamResetEvent,
    ]),
    CustomEvent,
  ])
  .register(apiSchemas, { id: 'Event' });
export type ServiceEvent = z.infer<typeof ServiceEvent>;
export type ServiceEventType = ServiceEvent['type'];

/** After one of these, the stream of a job ends. */
export const JOB_END_EVENTS: ReadonlySet<string> = new Set([
  'job.completed',
  'job.failed',
  'job.removed',
]);

/** After it, the stream of a batch ends. */
export const BATCH_END_EVENT = 'batch.finished';

const CUSTOM_TYPE = /^(model|slot)\.[a-z][a-z-]*$/;

export function isCustomEventType(name: string): name is CustomEvent['type'] {
  return CUSTOM_TYPE.test(name);
}

/** `a,b`, as a list. */
function splitAtCommas(text: string): string[] {
  return text.split(',');
}

const EventTypePattern = z.string().regex(/^[a-z]+\.(\*|[a-z-]+)$/, 'write job.failed, or job.*');

/** Which events a reader of all queues wants; everything when nothing is said. */
export const EventsQuery = z.strictObject({
  model: z
    .string()
    .transform(splitAtCommas)
    .pipe(z.array(ModelId).max(64))
    .meta({ description: 'only of these models, separated by commas' })
    .optional(),
  tenant: z
    .string()
    .min(1)
    .max(128)
    .meta({ description: 'only of its jobs and batches' })
    .optional(),
  types: z
    .string()
    .transform(splitAtCommas)
    .pipe(z.array(EventTypePattern).max(32))
    .meta({ description: 'only these types, separated by commas; `job.*` for all of a kind' })
    .optional(),
});
export type EventsQuery = z.infer<typeof EventsQuery>;

export const EventsHeaders = z.object({
  'last-event-id': z
    .string()
    .max(16_384)
    .meta({ description: 'goes on after this event; of the same address' })
    .optional(),
});

/** Requests and resources of the HTTP interface: the server, its clients and the OpenAPI document use exactly these. */
import { z } from 'zod';
import {
  byTask,
  JobClocks,
  JobId,
  JobOutcome,
  JobPriority,
  JobProgress,
  JobTask,
  MAX_DELAY_MS,
  ModelId,
  RawAudioFormat,
  UploadId,
} from '../job/job.ts';
import { TenantName } from '../job/tenant.ts';
import { apiSchemas } from '../openapi.ts';
import { RESULT_FORMATS } from '../results/result-formats.ts';
import { JobWebhook } from '../webhook.ts';
import { ModelState, WorkerPresence } from '../worker/status.ts';
import { ApiKeyScope } from './api-key.ts';

export const Timestamp = z.iso.datetime().meta({ description: 'UTC, ISO 8601' });

const FileName = z.string().min(1).max(255);

/** Where the audio is; exactly one of `path`, `uploadId`, `url` and `object`. */
export const JobRequestInput = z
  .strictObject({
    path: z
      .string()
      .min(1)
      .max(4_096)
      .meta({ description: 'a file of the server, inside its input roots' })
      .optional(),
    uploadId: UploadId.optional(),
    url: z
      .url({ protocol: /^https?$/ })
      .max(4_096)
      .meta({ description: 'fetched by the worker when it gets to the job' })
      .optional(),
    object: z
      .string()
      .max(2_048)
      .regex(/^s3:\/\/./)
      .meta({ description: 's3://BUCKET/KEY, below an object root of server and worker' })
      .optional(),
    /** Shown for an upload or a URL in place of a file name. */
    name: FileName.optional(),
    rawFormat: RawAudioFormat.meta({
      description: 'declares samples without a header',
    }).optional(),
  })
  .refine(
    ({ path, uploadId, url, object }) =>
      [path, uploadId, url, object].filter((source) => source !== undefined).length === 1,
    'give exactly one of path, uploadId, url and object',
  )
  .meta({ description: 'where the audio is: exactly one of path, uploadId, url and object' });
export type JobRequestInput = z.infer<typeof JobRequestInput>;

const modelMember = {
  /** The server's default model for the task when left out. */
  model: ModelId.optional(),
};

const settingMembers = {
  priority: JobPriority.default(1_000),
  delayMs: z.int().min(0).max(MAX_DELAY_MS).default(0),
  attempts: z.int().min(1).max(100).default(3),
  busyTimeoutMs: JobClocks.shape.busyTimeoutMs,
  timeoutMs: JobClocks.shape.timeoutMs,
  deadlineMs: z
    .int()
    .min(1)
    .meta({ description: 'from submission to end, time in the queue included' })
    .optional(),
  tenant: TenantName.optional()
    .transform((tenant) => tenant ?? null)
    .meta({ description: 'on whose behalf: that of the key, else `default`, when left out' }),
  partials: z
    .boolean()
    .meta({ description: 'keep segments for readers of the events while the job runs' })
    .default(false),
};

/** What a job is asked to do, with further members: also what all jobs of a batch have in common. */
export function jobSettingsWith<More extends z.ZodRawShape>(more: More) {
  return byTask(modelMember, { ...settingMembers, ...more });
}

const webhookMember = { webhook: JobWebhook.optional() };

export const JobSettings = jobSettingsWith(webhookMember);
export type JobSettings = z.infer<typeof JobSettings>;

export const JobRequest = jobSettingsWith({
  ...webhookMember,
  input: JobRequestInput,
}).register(apiSchemas, { id: 'JobRequest' });
export type JobRequest = z.infer<typeof JobRequest>;
/** What a client sends: everything with a default may be left out. */
export type JobRequestBody = z.input<typeof JobRequest>;

/** `cancelled` is a failure with the code CANCELLED. */
export const JobState = z.enum([
  'waiting',
  'delayed',
  'running',
  'completed',
  'failed',
  'cancelled',
]);
export type JobState = z.infer<typeof JobState>;

export const FailureResource = z
  .strictObject({
    code: z.string().meta({ description: 'a code of the error table' }),
    message: z.string(),
    type: z.string(),
    retryable: z.boolean(),
  })
  .register(apiSchemas, { id: 'Failure' });
export type FailureResource = z.infer<typeof FailureResource>;

export const InputResource = z.strictObject({
  kind: z.enum(['path', 'upload', 'url', 'object']),
  name: z.string(),
  path: z.string().optional(),
  uploadId: UploadId.optional(),
  url: z.string().meta({ description: 'without its query, which may hold secrets' }).optional(),
  object: z.string().meta({ description: 's3://BUCKET/KEY' }).optional(),
});
export type InputResource = z.infer<typeof InputResource>;

export const JobLinks = z.strictObject({
  self: z.string(),
  result: z.string(),
  events: z.string(),
});
export type JobLinks = z.infer<typeof JobLinks>;

/** Relative to the address of the interface. */
export function jobLinks(id: string): JobLinks {
  const self = `/v1/jobs/${encodeURIComponent(id)}`;
  return { self, result: `${self}/result`, events: `${self}/events` };
}

export const JobResource = z
  .strictObject({
    id: JobId,
    model: ModelId,
    task: JobTask,
    state: JobState,
    tenant: z.string(),
    priority: z.int().min(0),
    input: InputResource,
    progress: JobProgress.nullable(),
    outcome: JobOutcome.omit({ resultKey: true }).nullable(),
    failure: FailureResource.nullable(),
    attempts: z.int().min(0).meta({ description: 'attempts that have ended' }),
    createdAt: Timestamp,
    startedAt: Timestamp.nullable(),
    finishedAt: Timestamp.nullable(),
    deadlineAt: Timestamp.nullable(),
    links: JobLinks,
  })
  .register(apiSchemas, { id: 'Job' });
export type JobResource = z.infer<typeof JobResource>;

export const Cursor = z
  .string()
  .max(512)
  .regex(/^[A-Za-z0-9_-]+$/)
  .meta({ description: 'the nextCursor of the page before' });

export const JobListQuery = z.strictObject({
  state: JobState.optional(),
  model: ModelId.optional(),
  tenant: z.string().min(1).max(128).optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: Cursor.optional(),
});
export type JobListQuery = z.infer<typeof JobListQuery>;

export const JobPage = z
  .strictObject({
    items: z.array(JobResource),
    nextCursor: Cursor.nullable().meta({
      description: 'null on the last page; a page may hold fewer items than its limit',
    }),
  })
  .register(apiSchemas, { id: 'JobPage' });
export type JobPage = z.infer<typeof JobPage>;

export const JobParams = z.strictObject({ id: JobId });
export type JobParams = z.infer<typeof JobParams>;

/** `?purge`, `?purge=1`, `?purge=true`. */
export const QueryFlag = z
  .enum(['', '0', '1', 'false', 'true'])
  .transform((text) => text !== '0' && text !== 'false');

export const JobDeleteQuery = z.strictObject({ purge: QueryFlag.optional() });

export const CancelResource = z
  .strictObject({
    id: JobId,
    /** `cancelled`: it was waiting and has ended; `requested`: its worker was told; `finished`: too late. */
    result: z.enum(['cancelled', 'requested', 'finished']),
    purged: z
      .boolean()
      .meta({ description: 'the job, its transcript and its upload are forgotten' }),
  })
  .register(apiSchemas, { id: 'Cancel' });
export type CancelResource = z.infer<typeof CancelResource>;

export const ResultQuery = z.strictObject({
  format: z
    .enum(RESULT_FORMATS)
    .default('json')
    .meta({ description: 'txt, srt and vtt of transcripts; rttm and audacity of speech segments' }),
  redirect: QueryFlag.optional().meta({
    description: 'of JSON: go and read it where it is stored, if the server has object storage',
  }),
});

export const UploadQuery = z.strictObject({ name: FileName.optional() });

export const UploadResource = z
  .strictObject({
    id: UploadId,
    name: z.string(),
    bytes: z.int().min(0),
    createdAt: Timestamp,
    expiresAt: Timestamp.meta({ description: 'unless a job uses it then' }),
  })
  .register(apiSchemas, { id: 'Upload' });
export type UploadResource = z.infer<typeof UploadResource>;

/** The bytes that a client is going to put into the object storage itself. */
export const PresignRequest = z
  .strictObject({
    sha256: UploadId.meta({ description: 'of the bytes, hexadecimal: the id of the upload' }),
    bytes: z.int().min(1),
    name: FileName.optional(),
  })
  .register(apiSchemas, { id: 'PresignRequest' });
export type PresignRequest = z.infer<typeof PresignRequest>;

export const PresignResource = z
  .strictObject({
    token: z.string().meta({ description: 'for the confirmation' }),
    method: z.literal('PUT'),
    url: z.string().meta({ description: 'takes the bytes, until it expires' }),
    headers: z
      .record(z.string(), z.string())
      .meta({ description: 'to be sent with the bytes; Content-Length is theirs, too' }),
    expiresAt: Timestamp,
  })
  .register(apiSchemas, { id: 'Presign' });
export type PresignResource = z.infer<typeof PresignResource>;

export const ConfirmRequest = PresignRequest.extend({ token: z.string().max(128) }).register(
  apiSchemas,
  { id: 'ConfirmRequest' },
);
export type ConfirmRequest = z.infer<typeof ConfirmRequest>;

/** What goes with a request that may be sent twice. */
export const IdempotencyHeaders = z.object({
  'idempotency-key': z
    .string()
    .min(1)
    .max(255)
    .meta({ description: 'the same key and request give the same job' })
    .optional(),
});

const Count = z.int().min(0);

export const JobCountsResource = z.strictObject({
  waiting: Count,
  delayed: Count,
  running: Count,
  completed: Count,
  failed: Count.meta({ description: 'cancelled ones included' }),
});

/** Its first members are what OpenAI's clients look for. */
export const ModelResource = z
  .strictObject({
    id: ModelId,
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    workers: Count.meta({ description: 'live workers that serve it' }),
    state: z
      .enum([...ModelState.options, 'unserved'])
      .meta({ description: 'of the workers that are not ready, the first one; else ready' }),
    slots: Count,
    activeSlots: Count,
    queue: JobCountsResource,
  })
  .register(apiSchemas, { id: 'Model' });
export type ModelResource = z.infer<typeof ModelResource>;

/** Not a ModelId: what could be no model's is not there either. */
export const ModelParams = z.strictObject({ id: z.string().min(1).max(128) });

export const ModelList = z
  .strictObject({ object: z.literal('list'), data: z.array(ModelResource) })
  .register(apiSchemas, { id: 'ModelList' });
export type ModelList = z.infer<typeof ModelList>;

export const WorkerResource = WorkerPresence.register(apiSchemas, { id: 'Worker' });
export type WorkerResource = z.infer<typeof WorkerResource>;

export const WorkerList = z
  .strictObject({ items: z.array(WorkerResource) })
  .register(apiSchemas, { id: 'WorkerList' });
export type WorkerList = z.infer<typeof WorkerList>;

export const LoginRequest = z
  .strictObject({ key: z.string().min(1).max(256) })
  .register(apiSchemas, { id: 'LoginRequest' });

export const SessionResource = z
  .strictObject({
    /** `open`: no key exists and none is needed. */
    kind: z.enum(['key', 'session', 'open']),
    scopes: z.array(ApiKeyScope),
    tenant: TenantName.nullable().meta({ description: 'whose work is shown; null for all' }),
    csrfToken: z.string().nullable().meta({
      description: 'goes into X-CSRF-Token of what a page changes; null when none is needed',
    }),
  })
  .register(apiSchemas, { id: 'Session' });
export type SessionResource = z.infer<typeof SessionResource>;

export const AssetParams = z.strictObject({ build: z.string(), name: z.string().max(100) });

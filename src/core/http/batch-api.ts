/** Requests and resources of batches in the HTTP interface. */
import { z } from 'zod';
import { BatchCounts, BatchId, BatchState } from '../job/batch.ts';
import { JobId, JobOutcome, JobTask, ModelId } from '../job/job.ts';
import { apiSchemas } from '../openapi.ts';
import { SpeechActivity, Transcript } from '../results/job-result.ts';
import { RESULT_FORMATS } from '../results/result-formats.ts';
import { BatchWebhook } from '../webhook.ts';
import {
  Cursor,
  FailureResource,
  InputResource,
  JobLinks,
  JobState,
  jobSettingsWith,
  QueryFlag,
  Timestamp,
} from './api.ts';

/** In one JSON body; a body of lines may hold more. */
export const MAX_INLINE_INPUTS = 50_000;

const BatchName = z.string().min(1).max(255).meta({ description: 'for people' });

const ownMembers = { name: BatchName.optional(), webhook: BatchWebhook.optional() };

/** What the jobs of a batch have in common. */
export const BatchSettings = jobSettingsWith(ownMembers);
export type BatchSettings = z.infer<typeof BatchSettings>;

/** The inputs are checked one by one as they are added: all at once would keep the server from other work. */
export const BatchRequest = jobSettingsWith({
  ...ownMembers,
  inputs: z
    .array(z.unknown())
    .min(1)
    .max(MAX_INLINE_INPUTS)
    .meta({ description: 'each as the input of a job: path, uploadId or url' })
    .optional(),
  directory: z
    .string()
    .min(1)
    .max(4_096)
    .meta({ description: 'a folder of the server, inside its input roots, with all it holds' })
    .optional(),
})
  .refine(
    ({ inputs, directory }) => (inputs === undefined) !== (directory === undefined),
    'give either inputs or a directory',
  )
  .register(apiSchemas, { id: 'BatchRequest' });
export type BatchRequest = z.infer<typeof BatchRequest>;

/** The first line of a body of lines, when it is not an input already. */
export const BatchHeaderLine = z.strictObject({ batch: BatchSettings });

export const BatchLinks = z.strictObject({
  self: z.string(),
  items: z.string(),
  results: z.string(),
});

/** Relative to the address of the interface. */
export function batchLinks(id: string): z.infer<typeof BatchLinks> {
  const self = `/v1/batches/${encodeURIComponent(id)}`;
  return { self, items: `${self}/items`, results: `${self}/results` };
}

const BatchMembers = z.strictObject({
  id: BatchId,
  name: z.string().nullable(),
  tenant: z.string(),
  model: ModelId,
  task: JobTask.default('transcribe'),
  directory: z.string().nullable(),
  state: BatchState,
  counts: BatchCounts,
  interrupted: z.boolean().meta({
    description: 'its submission broke off; the same request with the same key goes on with it',
  }),
  createdAt: Timestamp,
  finishedAt: Timestamp.nullable(),
  links: BatchLinks,
});

export const BatchResource = BatchMembers.register(apiSchemas, { id: 'Batch' });
export type BatchResource = z.infer<typeof BatchResource>;

const Count = z.int().min(0);

export const BatchSubmission = BatchMembers.extend({
  skipped: Count.meta({ description: 'files of the directory that are neither audio nor video' }),
  unreadable: Count.meta({ description: 'of the directory, or outside the input roots' }),
}).register(apiSchemas, { id: 'BatchSubmission' });
export type BatchSubmission = z.infer<typeof BatchSubmission>;

export const BatchParams = z.strictObject({ id: BatchId });

const Limit = z.coerce.number().int().min(1).max(200).default(50);

export const BatchListQuery = z.strictObject({
  state: BatchState.optional(),
  tenant: z.string().min(1).max(128).optional(),
  limit: Limit,
  cursor: Cursor.optional(),
});

const NextCursor = Cursor.nullable().meta({
  description: 'null on the last page; a page may hold fewer items than its limit',
});

export const BatchPageResource = z
  .strictObject({ items: z.array(BatchResource), nextCursor: NextCursor })
  .register(apiSchemas, { id: 'BatchPage' });
export type BatchPageResource = z.infer<typeof BatchPageResource>;

export const BatchItemQuery = z.strictObject({
  state: JobState.optional(),
  limit: Limit,
  cursor: Cursor.optional(),
});

export const BatchItemResource = z
  .strictObject({
    index: Count.meta({ description: 'place in the batch, from 0' }),
    id: JobId.meta({ description: 'of its job' }),
    state: JobState,
    input: InputResource.nullable().meta({ description: 'null once the job has been dropped' }),
    outcome: JobOutcome.omit({ resultKey: true }).nullable(),
    failure: FailureResource.nullable(),
    links: JobLinks,
  })
  .register(apiSchemas, { id: 'BatchItem' });
export type BatchItemResource = z.infer<typeof BatchItemResource>;

export const BatchItemPage = z
  .strictObject({ items: z.array(BatchItemResource), nextCursor: NextCursor })
  .register(apiSchemas, { id: 'BatchItemPage' });
export type BatchItemPage = z.infer<typeof BatchItemPage>;

export const BatchResultQuery = z.strictObject({
  format: z.enum(['ndjson', 'zip']).default('ndjson'),
  as: z
    .enum(RESULT_FORMATS)
    .meta({ description: 'of each result; txt, or json for the task vad, when left out' })
    .optional(),
});

/** One line of a batch's results. */
export const BatchResultLine = z
  .strictObject({
    index: Count,
    id: JobId,
    state: z.enum(['completed', 'failed', 'cancelled']),
    /** Null once the job has been dropped and left no transcript. */
    name: z.string().nullable(),
    text: z.string().optional().meta({ description: 'in the format that was asked for' }),
    transcript: Transcript.optional().meta({ description: 'instead of text, as JSON' }),
    speech: SpeechActivity.optional().meta({ description: 'the same for the task vad' }),
    failure: FailureResource.optional(),
  })
  .register(apiSchemas, { id: 'BatchResultLine' });
export type BatchResultLine = z.infer<typeof BatchResultLine>;

export const BatchRetryQuery = z.strictObject({
  cancelled: QueryFlag.optional().meta({ description: 'cancelled items, too' }),
});

export const BatchRetryResource = z
  .strictObject({
    retried: Count,
    gone: Count.meta({ description: 'items whose jobs have been dropped' }),
    batch: BatchResource,
  })
  .register(apiSchemas, { id: 'BatchRetry' });
export type BatchRetryResource = z.infer<typeof BatchRetryResource>;

/** One OpenAI request as a job: added, waited for, cancelled when its client goes, its audio forgotten afterwards. */

import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { JobRequest } from '../../core/http/api.ts';
import { TranscriptionForm, TranslationForm } from '../../core/http/openai.ts';
import { parseRequestPart } from '../../core/http/problem.ts';
import { type JobId, ModelId, type UploadId } from '../../core/job/job.ts';
import type { Logger } from '../../core/logger.ts';
import { asTranscript, type Transcript } from '../../core/results/job-result.ts';
import { forgetUploadReferences } from '../../queue/access/upload-references.ts';
import type { AudioQueue } from '../../queue/audio-queue.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import type { Services } from '../services.ts';
import type { Form } from '../submit/form.ts';

/** First among what its tenant sent, too. */
const PRIORITY = 0;

/** How long a job that runs is waited for once it was told to stop. */
const STOP_WAIT_MS = 10_000;

const LISTS = new Set(['timestamp_granularities']);

/** @throws {InvalidRequestError} */
export function readTranscriptionForm(fields: Form['fields']): TranscriptionForm {
  return parseRequestPart(TranscriptionForm, membersOf(fields), 'form');
}

/** @throws {InvalidRequestError} */
export function readTranslationForm(fields: Form['fields']): TranslationForm {
  return parseRequestPart(TranslationForm, membersOf(fields), 'form');
}

function membersOf(fields: Form['fields']): Record<string, unknown> {
  const form: Record<string, unknown> = {};
  for (const [field, values] of fields) {
    // Lists come as `name[]`.
    const name = field.replace(/\[\d*\]$/, '');
    form[name] = LISTS.has(name) || values.length > 1 ? values : values[0];
  }
  return form;
}

/** Of either route. */
export type SpeechForm = TranslationForm & Partial<TranscriptionForm>;

/** @throws {WavepoolError} MODEL_UNKNOWN */
export function jobRequestOf(
  form: SpeechForm,
  upload: { readonly id: UploadId; readonly name: string },
  { settings }: Services,
  { translate = false } = {},
): JobRequest {
  const { model = settings.defaultModel, stream = false, busy_timeout_ms: busyTimeoutMs } = form;
  const { language, prompt, timestamp_granularities: times = [] } = form;
  const known = ModelId.safeParse(settings.modelAliases[model] ?? model);
  if (!known.success) throw new WavepoolError('MODEL_UNKNOWN', model);
  return JobRequest.parse({
    input: { uploadId: upload.id, name: upload.name },
    model: known.data,
    options: { language, prompt, translate, words: times.includes('word') },
    priority: PRIORITY,
    partials: stream,
    // Whoever says how long to wait for a slot wants to hear of it then, and not after more attempts.
    ...(busyTimeoutMs === undefined ? {} : { busyTimeoutMs, attempts: 1 }),
  });
}

/**
 * Waits for the transcript. When the signal aborts, the job is cancelled.
 * @throws {WavepoolError} with the code of the job's failure
 */
export async function awaitTranscript(
  { queue, view: { id } }: FoundJob,
  services: Services,
  signal: AbortSignal,
): Promise<Transcript> {
  try {
    const { resultKey } = await queue.waitFor(id, signal);
    return asTranscript(await services.results.read(resultKey));
  } catch (error) {
    if (!signal.aborted) throw toWavepoolError(error);
    await stop(queue, id);
    throw new WavepoolError('CANCELLED', 'the client has gone', { cause: error });
  }
}

/** Its worker reads the audio for as long as it runs. */
async function stop(queue: AudioQueue, id: JobId): Promise<void> {
  if ((await queue.cancel(id)) !== 'requested') return;
  await queue.waitFor(id, AbortSignal.timeout(STOP_WAIT_MS)).catch(() => undefined);
}

/** Nobody else knows the upload. What cannot be removed now is swept later. */
export async function forgetAudio(
  uploadId: UploadId,
  services: Services,
  logger: Logger,
): Promise<void> {
  try {
    await services.uploads.remove(uploadId);
    await forgetUploadReferences(services.queues.connection, uploadId);
  } catch (err) {
    logger.warn({ err, uploadId }, 'the audio of a request could not be removed');
  }
}

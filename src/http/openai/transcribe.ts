/** Runs a request of an OpenAI client as a job. The job is cancelled when the client goes; the audio is removed at the end. */

import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { JobRequest } from '../../core/http/api.ts';
import { TranscriptionForm, TranslationForm } from '../../core/http/openai.ts';
import { parseRequestPart } from '../../core/http/problem.ts';
import type { JobId, UploadId } from '../../core/job/job.ts';
import type { Logger } from '../../core/logger.ts';
import { asTranscript, type Transcript } from '../../core/results/job-result.ts';
import { forgetUploadReferences } from '../../queue/access/upload-references.ts';
import type { AudioQueue } from '../../queue/audio-queue.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import type { Services } from '../services.ts';
import type { Form } from '../submit/form.ts';
import { modelNamed } from '../submit/task-queue.ts';

/** The job also runs before other jobs of its tenant. */
const PRIORITY = 0;

/** How long to wait for a cancelled job to stop. */
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
    // A list comes in fields with the name `name[]`.
    const name = field.replace(/\[\d*\]$/, '');
    form[name] = LISTS.has(name) || values.length > 1 ? values : values[0];
  }
  return form;
}

/** The form of a transcription or a translation. */
export type SpeechForm = TranslationForm & Partial<TranscriptionForm>;

/** @throws {WavepoolError} MODEL_UNKNOWN */
export function jobRequestOf(
  form: SpeechForm,
  upload: { readonly id: UploadId; readonly name: string },
  { settings }: Services,
  { translate = false } = {},
): JobRequest {
  const { stream = false, busy_timeout_ms: busyTimeoutMs } = form;
  const { language, prompt, timestamp_granularities: times = [] } = form;
  return JobRequest.parse({
    input: { uploadId: upload.id, name: upload.name },
    model: modelNamed(form.model, settings),
    options: { language, prompt, translate, words: times.includes('word') },
    priority: PRIORITY,
    partials: stream,
    // A client that limits the wait for a slot gets the error at once, and not after more attempts.
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

/** Cancels the job and waits until its worker does not read the audio any more. */
async function stop(queue: AudioQueue, id: JobId): Promise<void> {
  if ((await queue.cancel(id)) !== 'requested') return;
  await queue.waitFor(id, AbortSignal.timeout(STOP_WAIT_MS)).catch(() => undefined);
}

/** Removes the upload, which no other request knows. If that fails, it is removed when it is old. */
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

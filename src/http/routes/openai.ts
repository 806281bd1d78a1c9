/** The routes that OpenAI's clients call, besides the list of models. */
import {
  OpenAiTranscription,
  openAiTranscription,
  openAiVerboseTranscription,
  type VerboseOptions,
} from '../../core/http/openai.ts';
import type { Transcript } from '../../core/results/job-result.ts';
import { renderTranscript } from '../../core/results/transcript-formats.ts';
import { SseResponse } from '../event-streams/sse-response.ts';
import { streamTranscript } from '../openai/stream-transcript.ts';
import {
  awaitTranscript,
  forgetAudio,
  jobRequestOf,
  readTranscriptionForm,
  readTranslationForm,
  type SpeechForm,
} from '../openai/transcribe.ts';
import { logJob } from '../request/request-context.ts';
import { type Reply, type RouteRequest, route, STREAMED } from '../request/route.ts';
import type { Form } from '../submit/form.ts';
import { receiveUpload } from '../submit/receive-upload.ts';
import { submitJob } from '../submit/submit-job.ts';

type TranscriptionRequest = Pick<
  RouteRequest<undefined, undefined, undefined, undefined>,
  'req' | 'res' | 'services' | 'caller' | 'logger' | 'signal'
>;

const ERRORS = [
  'MODEL_UNKNOWN',
  'TASK_UNSUPPORTED',
  'OPTION_UNSUPPORTED',
  'QUEUE_FULL',
  'BUSY_TIMEOUT',
  'BUSY_OVERDUE',
  'INPUT_TOO_LARGE',
  'INPUT_EMPTY',
  'INPUT_UNDECODABLE',
  'MEDIA_TYPE_UNSUPPORTED',
  'STORAGE_FULL',
] as const;

const createTranscription = route({
  method: 'post',
  path: '/v1/audio/transcriptions',
  name: 'createTranscription',
  tag: 'openai',
  summary: "Transcribe a file, as OpenAI's clients ask for it",
  description:
    'A form: `file`, `model`, `language`, `prompt`, `response_format` (json, text, srt, verbose_json, vtt), `stream`, `timestamp_granularities[]` (segment; word with verbose_json), `temperature` (0), `chunking_strategy` (auto), `busy_timeout_ms` (for a slot; then 503 instead of a longer wait); what the model does not have is refused. The answer is the transcript; `stream=true` sends `transcript.text.delta` and `transcript.text.done`. The job goes before others, is cancelled when the client goes, and its audio is removed afterwards.',
  scope: 'submit',
  forTenants: true,
  isOpenAi: true,
  consumes: ['multipart/form-data'],
  responses: {
    200: {
      description:
        'The transcript: OpenAiTranscription, OpenAiVerboseTranscription, text, or events, as asked for.',
      schema: OpenAiTranscription,
      headers: { 'X-Job-Id': 'the job that did it' },
    },
  },
  errors: [...ERRORS],
  handle: (request) => withUpload(request, readTranscriptionForm, false),
});

const createTranslation = route({
  method: 'post',
  path: '/v1/audio/translations',
  name: 'createTranslation',
  tag: 'openai',
  summary: "Translate the speech in a file into English, as OpenAI's clients ask for it",
  description:
    'As the transcription of a file, by a model that translates (others refuse with OPTION_UNSUPPORTED): `file`, `model`, `prompt`, `response_format` (json, text, srt, verbose_json, vtt), `temperature` (0), `busy_timeout_ms`.',
  scope: 'submit',
  forTenants: true,
  isOpenAi: true,
  consumes: ['multipart/form-data'],
  responses: {
    200: {
      description:
        'The English text: OpenAiTranscription, OpenAiVerboseTranscription or text, as asked for.',
      schema: OpenAiTranscription,
      headers: { 'X-Job-Id': 'the job that did it' },
    },
  },
  errors: [...ERRORS],
  handle: (request) => withUpload(request, readTranslationForm, true),
});

async function withUpload(
  request: TranscriptionRequest,
  readForm: (fields: Form['fields']) => SpeechForm,
  translate: boolean,
): Promise<Reply | typeof STREAMED> {
  const { req, services, caller, signal, logger } = request;
  const options = { services, caller, signal, isPrivate: true };
  const { upload, fields } = await receiveUpload(req, options);
  try {
    return await transcribe(readForm(fields), upload, request, translate);
  } finally {
    await forgetAudio(upload.id, services, logger);
  }
}

async function transcribe(
  form: SpeechForm,
  upload: { readonly id: string; readonly name: string },
  { req, res, services, caller, logger, signal }: TranscriptionRequest,
  translate: boolean,
): Promise<Reply | typeof STREAMED> {
  const wanted = jobRequestOf(form, upload, services, { translate });
  const job = await submitJob(wanted, services, { caller, interactive: true });
  const { id } = job.view;
  logJob(res, id);
  res.set('X-Job-Id', id);
  if (form.stream !== true) {
    const { language, timestamp_granularities: granularities } = form;
    const told = { language, granularities, translated: translate };
    return reply(form, await awaitTranscript(job, services, signal), told);
  }
  const { maxEventBytes: maxBufferedBytes } = services.settings;
  const client = new SseResponse({ req, res, signal, maxBufferedBytes, logger });
  await streamTranscript(job, services, { client, signal });
  return STREAMED;
}

function reply(form: SpeechForm, transcript: Transcript, told: VerboseOptions): Reply {
  switch (form.response_format) {
    case 'json':
      return { status: 200, json: openAiTranscription(transcript) };
    case 'verbose_json':
      return { status: 200, json: openAiVerboseTranscription(transcript, told) };
    case 'text':
      return { status: 200, text: `${transcript.text}\n` };
    case 'srt':
    case 'vtt':
      return { status: 200, text: renderTranscript(transcript, form.response_format) };
    default:
      return form.response_format satisfies never;
  }
}

export const openAiRoutes = [createTranscription, createTranslation];

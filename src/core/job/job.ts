/** What travels through the queue: job data in, progress and a small outcome back. Transcripts stay in the result store. */
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { WavepoolError } from '../errors.ts';
import { parse } from '../parse.ts';
import { BucketName, ObjectKey } from '../s3-settings.ts';
import { JobWebhook } from '../webhook.ts';
import { assertKnownVersion, JOB_SCHEMA_VERSION } from './job-version.ts';
import { TenantName } from './tenant.ts';

/** Names a model, its queue and its evidence. */
export const ModelId = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'a model id is a-z, 0-9, ".", "_", "-", at most 64');
export type ModelId = z.infer<typeof ModelId>;

/** In Redis a job lies beside the queue's own keys and must not have the name of one. */
const QUEUE_KEYS = new Set(
  [
    'active wait waiting-children paused id delayed prioritized stalled-check completed failed stalled',
    'repeat limiter meta events pc marker de metrics',
  ]
    .join(' ')
    .split(' '),
);

/** Unique within a model's queue. The queue refuses ":" and ids that are whole numbers. */
export const JobId = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/,
    'a job id is A-Z, a-z, 0-9, ".", "_", "-", at most 128',
  )
  .refine((id) => !/^\d+$/.test(id), 'a job id is not a whole number')
  .refine((id) => !QUEUE_KEYS.has(id), "a job id is not one of the queue's own words");
export type JobId = z.infer<typeof JobId>;

/** What is asked of the model: the words of an input, or where somebody speaks in it. */
export const JobTask = z.enum(['transcribe', 'vad']);
export type JobTask = z.infer<typeof JobTask>;

/** Encodings of audio without a header, by ffmpeg's names. */
export const RAW_CODECS = [
  ...['mulaw', 'alaw', 'u8', 's8', 's16le', 's16be', 's24le', 's24be', 's32le', 's32be'],
  ...['f32le', 'f32be', 'f64le', 'f64be'],
] as const;

/** What a header would say of audio that has none. */
export const RawAudioFormat = z.strictObject({
  codec: z.enum(RAW_CODECS),
  sampleRate: z.int().min(1_000).max(768_000),
  channels: z.int().min(1).max(32),
});
export type RawAudioFormat = z.infer<typeof RawAudioFormat>;

/** A file that the worker can open under the same path. */
export const PathInput = z.strictObject({
  kind: z.literal('path'),
  path: z
    .string()
    .refine((path) => isAbsolute(path) && !path.includes('\0'), 'the path is absolute'),
  /** Declares the file to be samples and nothing else; without it the content tells the format. */
  rawFormat: RawAudioFormat.optional(),
});
export type PathInput = z.infer<typeof PathInput>;

/** The SHA-256 of an uploaded file's bytes. */
export const UploadId = z.string().regex(/^[0-9a-f]{64}$/, 'an upload id is 64 hexadecimal digits');
export type UploadId = z.infer<typeof UploadId>;

const InputName = z.string().min(1).max(255);

/** A file in the upload store. */
export const UploadInput = z.strictObject({
  kind: z.literal('upload'),
  id: UploadId,
  /** What the sender called it. */
  name: InputName,
  rawFormat: RawAudioFormat.optional(),
});
export type UploadInput = z.infer<typeof UploadInput>;

/** A file that the worker fetches when it gets to the job. */
export const UrlInput = z.strictObject({
  kind: z.literal('url'),
  url: z.url({ protocol: /^https?$/ }).max(4_096),
  name: InputName,
  rawFormat: RawAudioFormat.optional(),
});
export type UrlInput = z.infer<typeof UrlInput>;

/** An object that the worker fetches with its own credentials, from a bucket that its settings allow. */
export const ObjectInput = z.strictObject({
  kind: z.literal('object'),
  bucket: BucketName,
  key: ObjectKey,
  rawFormat: RawAudioFormat.optional(),
});
export type ObjectInput = z.infer<typeof ObjectInput>;

export const JobInput = z.discriminatedUnion('kind', [
  PathInput,
  UploadInput,
  UrlInput,
  ObjectInput,
]);
export type JobInput = z.infer<typeof JobInput>;

/** How speech is told from silence. */
export const VadOptions = z.strictObject({
  /** Speech begins at this probability. */
  threshold: z.number().gt(0).lt(1).default(0.5),
  /** A pause this long ends a segment that has reached `targetSegmentMs`. */
  minSilenceMs: z.int().min(0).max(60_000).default(400),
  /** Shorter segments go on across pauses shorter than `longSilenceMs`: recognizers need context. */
  targetSegmentMs: z.int().min(0).max(60_000).default(8_000),
  /** A pause this long ends every segment. */
  longSilenceMs: z.int().min(0).max(60_000).default(1_500),
  /** Shorter stretches are not speech. */
  minSpeechMs: z.int().min(0).max(60_000).default(250),
  /** Kept before and after each stretch. */
  padMs: z.int().min(0).max(5_000).default(200),
});
export type VadOptions = z.infer<typeof VadOptions>;

/** What one channel of a recording holds, such as `agent` or `caller`. */
export const SpeakerLabel = z.string().trim().min(1).max(64);

export const TranscribeOptions = z.strictObject({
  /** A language tag such as `en`; without it the model decides, once for the whole input. */
  language: z
    .string()
    .regex(/^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$/)
    .optional(),
  /** The text is English whatever is spoken. */
  translate: z.boolean().default(false),
  /** What was said before, or names and words that may occur. */
  prompt: z.string().max(4_096).optional(),
  /** With the time of every word. */
  words: z.boolean().default(false),
  /** `mix`: one voice track. `split`: each channel is transcribed by itself, as a call recording has them. */
  channels: z.enum(['mix', 'split']).default('mix'),
  /** Who speaks on each channel, in order; without it `channel 1`, `channel 2` …. Only with `split`. */
  speakers: z.array(SpeakerLabel).min(1).max(8).optional(),
  /** Longer speech is split; the model's own limit still holds. */
  maxSegmentSeconds: z.number().gt(0).optional(),
  vad: VadOptions.prefault({}),
});
export type TranscribeOptions = z.infer<typeof TranscribeOptions>;

/** Of the task `vad`. Segments are what was spoken, so nothing is joined for the sake of a recognizer by default. */
export const DetectionOptions = z.strictObject({
  /** Longer speech is split. */
  maxSegmentSeconds: z.number().gt(0).optional(),
  vad: VadOptions.extend({ targetSegmentMs: z.int().min(0).max(60_000).default(0) }).prefault({}),
});
export type DetectionOptions = z.infer<typeof DetectionOptions>;

const TRANSCRIBE = {
  task: z.literal('transcribe').default('transcribe'),
  options: TranscribeOptions.refine(
    ({ channels, speakers }) => speakers === undefined || channels === 'split',
    { path: ['speakers'], message: 'speakers are named only where channels are split' },
  ).prefault({}),
  /** Parts of a long input are recognized by whichever workers have room. The transcript is the same. */
  split: z.boolean().optional(),
};
const VAD = { task: z.literal('vad'), options: DetectionOptions.prefault({}) };

/**
 * One schema per task, told apart by `task`, which is `transcribe` when left out. Its members stand between the others:
 * the order of a request's members is part of what an idempotency key stands for.
 */
export function byTask<Before extends z.ZodRawShape, After extends z.ZodRawShape>(
  before: Before,
  after: After,
) {
  return z.discriminatedUnion(
    'task',
    [
      z.strictObject({ ...before, ...TRANSCRIBE, ...after }),
      z.strictObject({ ...before, ...VAD, ...after }),
    ],
    { error: `the task is ${JobTask.options.join(' or ')}` },
  );
}

/** `Omit` that keeps a union of tasks a union. */
export type OmitEach<Union, Keys extends PropertyKey> = Union extends unknown
  ? Omit<Union, Keys>
  : never;

/** The three time limits of a job; each has its own error code. */
export const JobClocks = z.strictObject({
  /** Waiting for a slot inside a worker (BUSY_TIMEOUT); 0 = no limit. */
  busyTimeoutMs: z.int().min(0).default(300_000),
  /** Running in a worker (JOB_TIMEOUT); 0 = no limit. */
  timeoutMs: z
    .int()
    .min(0)
    .default(6 * 3_600_000),
  /** End to end, queue time included (DEADLINE_EXCEEDED); milliseconds since 1970. */
  deadlineAt: z.int().min(0).optional(),
});
export type JobClocks = z.infer<typeof JobClocks>;

/** Lower runs first, among the jobs of its tenant. */
export const JobPriority = z.int().min(0).max(2_097_151);

/** A year. */
export const MAX_DELAY_MS = 31_536_000_000;

/** What a producer says of a job besides its task. */
const request = {
  clocks: JobClocks.prefault({}),
  tenant: TenantName.default('default'),
  /** Tell each segment as soon as it is found, and not only the whole result. */
  partials: z.boolean().default(false),
  /** The `run` that submitted the job. */
  runId: z.string().min(1).max(128).optional(),
  /** Told how the job ends. */
  webhook: JobWebhook.optional(),
};

/** Of a job of any version: whose it is. */
export const JobOwner = z.looseObject({ tenant: request.tenant });
export type JobOwner = z.infer<typeof JobOwner>;

/** Of a job of any version: when it is too late for it. */
export const JobLimits = z.looseObject({
  clocks: z.looseObject({ deadlineAt: z.int().min(0).optional() }),
});

export const JobData = byTask(
  {
    schemaVersion: z.literal(JOB_SCHEMA_VERSION).default(JOB_SCHEMA_VERSION),
    input: JobInput,
    model: ModelId,
  },
  {
    ...request,
    /** Milliseconds since 1970. */
    submittedAt: z.int().min(0),
    /** What the producer asked for; the queue's own number is the job's place among those of all tenants. */
    priority: JobPriority.optional(),
    /** Somebody waits for it: it goes before what does not say so, whoever it is from. */
    interactive: z.literal(true).optional(),
    /** How many worker processes died while they held this job. */
    crashCount: z.int().min(0).default(0),
    /** How many were killed from outside while they did. */
    killCount: z.int().min(0).optional(),
    /** The lock token under which the latest of those deaths happened: none is counted twice. */
    lastCrashToken: z.string().optional(),
  },
);
export type JobData = z.infer<typeof JobData>;

/** What a producer hands in; everything with a default may be left out. */
export const NewJob = byTask(
  { input: JobInput },
  {
    ...request,
    /** Random when left out. Adding an id that the queue still knows runs nothing. */
    id: JobId.optional(),
    priority: JobPriority.default(1_000),
    /** Before everything that does not say so: for requests that somebody waits for. */
    interactive: z.boolean().default(false),
    /** Not started before this much time has passed. */
    delayMs: z.int().min(0).max(MAX_DELAY_MS).default(0),
    /** How often a failure that may pass by itself is tried in all. */
    attempts: z.int().min(1).max(100).default(3),
  },
);
export type NewJob = z.input<typeof NewJob>;

/**
 * Job data as it came over the wire, checked and completed.
 * @throws {WavepoolError} JOB_TOO_NEW when a newer producer made it, INVALID_REQUEST
 */
export function parseJobData(raw: unknown): JobData {
  assertKnownVersion(raw);
  return parse(JobData, raw, 'job data');
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function parseNewJob(raw: unknown): z.output<typeof NewJob> {
  return parse(NewJob, raw, 'job');
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function parseModelId(raw: unknown): ModelId {
  return parse(ModelId, raw, `model ${JSON.stringify(raw)}`);
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function parseJobId(raw: unknown): JobId {
  return parse(JobId, raw, `job id ${JSON.stringify(raw)}`);
}

const Milliseconds = z.number().min(0);

/** Where a job's time went. */
export const JobTimings = z.strictObject({
  /** From submission to the start of the attempt that finished. */
  queuedMs: Milliseconds,
  decodeMs: Milliseconds,
  vadMs: Milliseconds,
  asrMs: Milliseconds,
  /** Of the attempt that finished, wall clock. */
  totalMs: Milliseconds,
});
export type JobTimings = z.infer<typeof JobTimings>;

/** The job's return value: a pointer and small counts. */
export const JobOutcome = z.strictObject({
  /** Names the result in the result store. */
  resultKey: z.string().min(1),
  durationSeconds: z.number().min(0),
  speechSeconds: z.number().min(0),
  segments: z.int().min(0),
  /** Of text; 0 for tasks that give none. */
  characters: z.int().min(0),
  noSpeech: z.boolean(),
  /** Codes only; the messages are in the result. */
  warnings: z.array(z.string()),
  timings: JobTimings,
});
export type JobOutcome = z.infer<typeof JobOutcome>;

export const JobPhase = z.enum(['waiting', 'decoding', 'running', 'committing', 'handed-back']);
export type JobPhase = z.infer<typeof JobPhase>;

export const JobProgress = z.strictObject({
  phase: JobPhase,
  processedSeconds: z.number().min(0),
  /** Unknown until the input has been decoded. */
  totalSeconds: z.number().min(0).nullable(),
  segmentsDone: z.int().min(0),
});
export type JobProgress = z.infer<typeof JobProgress>;

/** A segment of a job that still runs. Segments come in the order in which they were found or recognized. */
export const PartialSegment = z.strictObject({
  /** Place in the order of the audio. After a crash or a retry a place may come again, and counts as told last. */
  index: z.int().min(0),
  /** Seconds from the beginning of the input. */
  start: z.number().min(0),
  end: z.number().min(0),
  /** Empty where no words were recognized, which transcripts leave out, and for tasks that give no text. */
  text: z.string(),
  /** Who speaks, where channels are transcribed one by one. */
  speaker: z.string().optional(),
});
export type PartialSegment = z.infer<typeof PartialSegment>;

/** The segment that a worker told, or nothing for one of another version. */
export function parsePartialSegment(raw: unknown): PartialSegment | undefined {
  return PartialSegment.safeParse(raw).data;
}

const RAW_FORMAT_WORDS = /^([a-z0-9]+),(\d+),(\d+)$/;

/**
 * Reads `codec,rate,channels`, such as `mulaw,8000,1`.
 * @throws {WavepoolError} INVALID_REQUEST
 */
export function parseRawAudioFormat(text: string): RawAudioFormat {
  const [, codec, sampleRate, channels] = RAW_FORMAT_WORDS.exec(text) ?? [];
  if (codec === undefined)
    throw new WavepoolError('INVALID_REQUEST', `${text} is not CODEC,RATE,CHANNELS`);
  const raw = { codec, sampleRate: Number(sampleRate), channels: Number(channels) };
  return parse(RawAudioFormat, raw, `input format ${text}`);
}

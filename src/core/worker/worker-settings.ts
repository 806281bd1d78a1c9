/** What a supervisor tells a new worker process. */
import { z } from 'zod';
import { LogLevel } from '../config.ts';
import { ModelId } from '../job/job.ts';
import { S3Settings } from '../s3-settings.ts';

/** Where Redis is: a URL, or the unix socket of a data directory's private server. */
export const RedisAddress = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('url'), url: z.string().min(1) }),
  z.strictObject({ kind: z.literal('socket'), path: z.string().min(1) }),
]);
export type RedisAddress = z.infer<typeof RedisAddress>;

export const WorkerModel = z.strictObject({
  id: ModelId,
  /** The converted weights. */
  path: z.string().min(1),
  /** Sessions over one set of weights; more than the evidence admits needs `unvalidatedSlots` of the worker. */
  slots: z.int().min(1),
  /** Most segments in one native batch. */
  batch: z.int().min(1).max(64),
  /** Compute threads per slot. */
  threads: z.int().min(1).max(64),
  /** Ceiling of the busy timeout of its requests and managers; 0 = unbounded. */
  busyTimeoutMs: z.int().min(0).default(0),
});
export type WorkerModel = z.infer<typeof WorkerModel>;

/** What an input may cost that is fetched from a URL. */
export const UrlLimits = z.strictObject({
  maxBytes: z
    .int()
    .min(1)
    .default(2 * 1024 ** 3),
  /** Of the whole fetch, redirects included. */
  timeoutMs: z.int().min(1).default(600_000),
  maxRedirects: z.int().min(0).default(5),
  /** Networks that may be reached though they are not public, such as `10.0.0.0/8`. */
  allowedNetworks: z.array(z.union([z.cidrv4(), z.cidrv6()])).default([]),
});
export type UrlLimits = z.infer<typeof UrlLimits>;

export const WorkerSettings = z.strictObject({
  redis: RedisAddress,
  /** The data directory whose private server that is: the last worker stops it when the supervisor is gone. */
  privateRedisOf: z.string().min(1).optional(),
  resultsDir: z.string().min(1),
  /** Where the server puts uploads; without it, jobs that name one fail. */
  uploadsDir: z.string().min(1).optional(),
  urls: UrlLimits.prefault({}),
  /** Results and uploads may be in a bucket in place of the folders, and inputs objects. */
  s3: S3Settings.prefault({}),
  /** The models that this worker serves; the first one's settings are the defaults of those that are loaded later. */
  models: z.array(WorkerModel).min(1),
  /** Where a model is looked for that is loaded later; without it, only those above can be. */
  modelsDir: z.string().min(1).optional(),
  /** Slot counts up to this one are taken without evidence; 0 = none but 1. Decided once, at the start. */
  unvalidatedSlots: z.int().min(0).max(16).default(0),
  /** Models are loaded by their first job instead of at the start. */
  lazy: z.boolean().default(false),
  /** Most models in memory; 0 = unbounded. One more evicts the one that was used least recently. */
  maxLoadedModels: z.int().min(0).default(0),
  /** A model without work for so long leaves memory; 0 = never. */
  idleUnloadMs: z.int().min(0).default(0),
  /** A load leaves at least this much memory free, or is refused; 0 = not looked at. */
  minFreeMemoryMb: z.int().min(0).default(0),
  /** Most segments that wait for one model's slots; 0 = unbounded. */
  maxQueued: z.int().min(0).default(0),
  /** Inputs with more audio are refused; 0 = no limit. */
  maxAudioSeconds: z
    .number()
    .min(0)
    .default(24 * 3_600),
  /**
   * A worker process whose event loop says nothing for so long, or in which one native batch runs for so long, hangs: it is
   * ended like one that crashed; 0 = never.
   */
  hangLimitMs: z.int().min(0).default(600_000),
  /** After so long without renewal a job is no longer its worker's. */
  lockDurationMs: z.int().min(1_000).default(60_000),
  /** A job that runs for so long no longer counts among those that run at once, so that short ones get by. */
  longJobMs: z.int().min(1).default(10_000),
  /** How often jobs are looked for whose worker is gone. */
  stalledIntervalMs: z.int().min(500).default(30_000),
  /** The voice activity detector that finds speech for them. */
  detector: z.strictObject({ id: ModelId, path: z.string().min(1) }),
  /** Live streams that this worker takes at once, as far as evidence admits them; 0 = it takes none. */
  liveStreams: z.int().min(0).max(16).default(0),
  /** Another addon than the one that was built with the project. */
  addonPath: z.string().min(1).optional(),
  /** A program name that is looked up, or a path. */
  ffmpeg: z.string().min(1).default('ffmpeg'),
  logLevel: LogLevel.default('info'),
});
export type WorkerSettings = z.infer<typeof WorkerSettings>;
export type WorkerSettingsInput = z.input<typeof WorkerSettings>;

/** What a supervisor tells a new worker process. */
import { z } from 'zod';
import { LogLevel } from './config.ts';
import { ModelId } from './job.ts';

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
  /** Sessions over one set of weights; more than the evidence admits needs `unvalidatedSlots`. */
  slots: z.int().min(1),
  unvalidatedSlots: z.boolean(),
  /** Most segments in one native batch. */
  batch: z.int().min(1).max(64),
  /** Compute threads per slot. */
  threads: z.int().min(1).max(64),
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
  resultsDir: z.string().min(1),
  /** Where the server puts uploads; without it, jobs that name one fail. */
  uploadsDir: z.string().min(1).optional(),
  urls: UrlLimits.prefault({}),
  /** The models that this worker serves. */
  models: z.array(WorkerModel).min(1),
  /** The voice activity detector that finds speech for them. */
  detector: z.strictObject({ id: ModelId, path: z.string().min(1) }),
  /** Another addon than the one that was built with the project. */
  addonPath: z.string().min(1).optional(),
  /** A program name that is looked up, or a path. */
  ffmpeg: z.string().min(1).default('ffmpeg'),
  logLevel: LogLevel.default('info'),
});
export type WorkerSettings = z.infer<typeof WorkerSettings>;
export type WorkerSettingsInput = z.input<typeof WorkerSettings>;

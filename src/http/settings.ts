/** The settings of the server. Most are options of `wavepool serve`. */
import type { JobTask, ModelId } from '../core/job/job.ts';
import type { ObjectPlace } from '../core/s3-settings.ts';

export interface HttpSettings {
  /** The address to listen on. An address that is not loopback needs an API key. */
  readonly host: string;
  /** The port to listen on; 0 takes a free one. */
  readonly port: number;
  /** The model of requests that name none. */
  readonly defaultModel: ModelId;
  /** The tasks of known models, whether a worker serves them or not. */
  readonly modelTasks: Readonly<Record<ModelId, JobTask>>;
  /** Inputs may be named by path only if they are below one of these folders. The paths are real paths. */
  readonly inputRoots: readonly string[];
  /** Inputs may be named by object only if they are below one of these places. */
  readonly objectRoots: readonly ObjectPlace[];
  readonly maxUploadBytes: number;
  /** How many jobs may wait in one queue. */
  readonly maxQueued: number;
  /** A client that leaves more bytes than this of an event stream unread is disconnected. */
  readonly maxEventBytes: number;
  /** How many live streams one API key may have at once, over all servers; 0 means no limit. */
  readonly livePerKey: number;
  /** A live stream that gets no audio for this long ends; 0 means never. */
  readonly liveIdleMs: number;
  /** The longest duration of a live stream; 0 means no limit. */
  readonly liveMaxMs: number;
  /** Other names for models, such as `whisper-1`, for clients that know only those. */
  readonly modelAliases: Readonly<Record<string, ModelId>>;
  /** How long an upload is kept after its last use. */
  readonly uploadRetentionMs: number;
  /** Pages of these origins may call the interface. */
  readonly allowedOrigins: readonly string[];
  /** Other host names under which requests without a key may reach a loopback server. */
  readonly allowedHosts: readonly string[];
  /** Whether the queue board is read-only for everybody. */
  readonly queuesReadOnly: boolean;
  /** How long requests may go on when the server is to end. */
  readonly shutdownMs: number;
}

export const DEFAULT_SETTINGS: HttpSettings = {
  host: '127.0.0.1',
  port: 8080,
  defaultModel: 'moonshine-tiny',
  modelTasks: {},
  inputRoots: [],
  objectRoots: [],
  maxUploadBytes: 2 * 1024 ** 3,
  maxQueued: 100_000,
  maxEventBytes: 1024 ** 2,
  livePerKey: 8,
  liveIdleMs: 30_000,
  liveMaxMs: 4 * 3_600_000,
  modelAliases: {},
  uploadRetentionMs: 7 * 86_400_000,
  allowedOrigins: [],
  allowedHosts: [],
  queuesReadOnly: true,
  shutdownMs: 30_000,
};

/** A login without requests is forgotten after this time. */
export const SESSION_LIFE_MS = 12 * 3_600_000;

/** What the server may be told; the command line fills it in. */
import type { JobTask, ModelId } from '../core/job/job.ts';
import type { ObjectPlace } from '../core/s3-settings.ts';

export interface HttpSettings {
  /** An address to listen on; other than loopback only with an API key. */
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** For requests that name none. */
  readonly defaultModel: ModelId;
  /** What models are known to do, whether a worker serves them or not. */
  readonly modelTasks: Readonly<Record<ModelId, JobTask>>;
  /** Folders in which inputs may be named by path; without any, none may. Real paths. */
  readonly inputRoots: readonly string[];
  /** Below these inputs may be named by object; without any, none may. */
  readonly objectRoots: readonly ObjectPlace[];
  readonly maxUploadBytes: number;
  /** Jobs that may wait in one queue. */
  readonly maxQueued: number;
  /** A reader of events that leaves more than this unread is cut off. */
  readonly maxEventBytes: number;
  /** Live streams that one API key may have at once, over all servers; 0 = no limit. */
  readonly livePerKey: number;
  /** A live stream that gets no audio for so long ends; 0 = never. */
  readonly liveIdleMs: number;
  /** No live stream lasts longer; 0 = no limit. */
  readonly liveMaxMs: number;
  /** Names under which models may be asked for, too, such as `whisper-1`, for clients that know only those. */
  readonly modelAliases: Readonly<Record<string, ModelId>>;
  /** Uploads are kept for so long after their last use. */
  readonly uploadRetentionMs: number;
  /** Pages of these origins may call; none by default. */
  readonly allowedOrigins: readonly string[];
  /** More names under which requests without a key may reach a loopback server. */
  readonly allowedHosts: readonly string[];
  /** Whether the pages of the queues only show them, to whoever it may be. */
  readonly queuesReadOnly: boolean;
  /** How long requests may go on once the server is to end. */
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

/** Lives in Redis; without a request a login is forgotten after this. */
export const SESSION_LIFE_MS = 12 * 3_600_000;

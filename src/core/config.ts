/** The only reader of the environment. Command-line options override what is read here. */
import { homedir, tmpdir, userInfo } from 'node:os';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { z } from 'zod';
import { WavepoolError } from './errors.ts';
import { parseObjectPlace, S3Settings } from './s3-settings.ts';
import type { TracingConfig } from './tracing.ts';
import { WebhookLimits, WebhookSecret } from './webhook.ts';

export const LogLevel = z.enum(['silent', 'error', 'warn', 'info', 'debug', 'trace']);
export type LogLevel = z.infer<typeof LogLevel>;

export interface Config {
  /** Queue and results. `WAVEPOOL_DATA_DIR`, else `$XDG_DATA_HOME/wavepool`. */
  readonly dataDir: string;
  /** Weights and evidence, shared by all data directories. `WAVEPOOL_MODELS_DIR`, else `$XDG_DATA_HOME/wavepool/models`. */
  readonly modelsDir: string;
  /** Parent folders for the private socket, best first. */
  readonly runtimeDirs: readonly string[];
  /** An existing Redis; without it a private one is used. `WAVEPOOL_REDIS`. */
  readonly redisUrl: string | undefined;
  /** The server program to start. `WAVEPOOL_REDIS_SERVER`, else searched for. */
  readonly redisServer: string | undefined;
  /** Folders in which programs are searched for. */
  readonly searchPath: readonly string[];
  /** A native addon other than the one that was built here. `WAVEPOOL_ADDON`. */
  readonly addonPath: string | undefined;
  /** Most audio in one input, in seconds; 0 = no limit. `WAVEPOOL_MAX_AUDIO_HOURS`, else 24 hours. */
  readonly maxAudioSeconds: number;
  /** Of object storage. `WAVEPOOL_STORAGE`, `WAVEPOOL_OBJECT_ROOTS`, `WAVEPOOL_S3_…`; credentials are the AWS SDK's own matter. */
  readonly s3: S3Settings;
  /** Of servers and workers: those of one Redis need the same. */
  readonly webhooks: WebhookConfig;
  /**
   * Where spans go to; nowhere without it. `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, else `OTEL_EXPORTER_OTLP_ENDPOINT`, unless
   * `OTEL_SDK_DISABLED`; `OTEL_SERVICE_NAME`. OpenTelemetry itself reads more variables of the same prefix.
   */
  readonly tracing: TracingConfig | undefined;
  /** `WAVEPOOL_LOG_LEVEL` */
  readonly logLevel: LogLevel;
}

export interface WebhookConfig {
  /** The server's, newest first, at most two; without one a secret is made and kept in Redis. `WAVEPOOL_WEBHOOK_SECRET`. */
  readonly secrets: readonly WebhookSecret[];
  /** Not public, and allowed all the same. `WAVEPOOL_WEBHOOK_NETWORKS`. */
  readonly allowedNetworks: readonly string[];
}

/** Every variable that is read. */
export interface Environment {
  readonly HOME?: string | undefined;
  readonly PATH?: string | undefined;
  readonly XDG_DATA_HOME?: string | undefined;
  readonly XDG_RUNTIME_DIR?: string | undefined;
  readonly WAVEPOOL_DATA_DIR?: string | undefined;
  readonly WAVEPOOL_MODELS_DIR?: string | undefined;
  readonly WAVEPOOL_REDIS?: string | undefined;
  readonly WAVEPOOL_REDIS_SERVER?: string | undefined;
  readonly WAVEPOOL_ADDON?: string | undefined;
  readonly WAVEPOOL_MAX_AUDIO_HOURS?: string | undefined;
  readonly WAVEPOOL_STORAGE?: string | undefined;
  readonly WAVEPOOL_OBJECT_ROOTS?: string | undefined;
  readonly WAVEPOOL_S3_ENDPOINT?: string | undefined;
  readonly WAVEPOOL_S3_PUBLIC_ENDPOINT?: string | undefined;
  readonly WAVEPOOL_S3_REGION?: string | undefined;
  readonly WAVEPOOL_S3_PATH_STYLE?: string | undefined;
  readonly OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined;
  readonly OTEL_EXPORTER_OTLP_TRACES_ENDPOINT?: string | undefined;
  readonly OTEL_SERVICE_NAME?: string | undefined;
  readonly OTEL_SDK_DISABLED?: string | undefined;
  readonly WAVEPOOL_WEBHOOK_SECRET?: string | undefined;
  readonly WAVEPOOL_WEBHOOK_NETWORKS?: string | undefined;
  readonly WAVEPOOL_LOG_LEVEL?: string | undefined;
}

/** Looked in after `PATH`: a daemon or a desktop session often has a short one. */
const MORE_PROGRAM_FOLDERS = ['/usr/local/bin', '/opt/homebrew/bin', '/usr/bin', '/usr/sbin'];

const DEFAULT_MAX_AUDIO_HOURS = 24;

function optional(value: string | undefined): string | undefined {
  return value === undefined || value === '' ? undefined : value;
}

function optionalPath(value: string | undefined): string | undefined {
  const path = optional(value);
  return path === undefined ? undefined : resolve(path);
}

/** XDG says that a relative value is to be ignored. */
function xdgFolder(value: string | undefined): string | undefined {
  const path = optional(value);
  return path !== undefined && isAbsolute(path) ? path : undefined;
}

function readLogLevel(value: string | undefined): LogLevel {
  const parsed = LogLevel.safeParse(optional(value) ?? 'info');
  if (parsed.success) return parsed.data;
  throw new WavepoolError(
    'INVALID_REQUEST',
    `WAVEPOOL_LOG_LEVEL is ${JSON.stringify(value)}; use one of ${LogLevel.options.join(', ')}`,
  );
}

function readMaxAudioSeconds(value: string | undefined): number {
  const hours = Number(optional(value) ?? DEFAULT_MAX_AUDIO_HOURS);
  if (hours >= 0 && Number.isFinite(hours)) return hours * 3_600;
  throw new WavepoolError(
    'INVALID_REQUEST',
    `WAVEPOOL_MAX_AUDIO_HOURS is ${JSON.stringify(value)}; give a number of hours, 0 for no limit`,
  );
}

/** A store that is not Amazon's seldom has a host name for each bucket. */
function readS3(environment: Environment): S3Settings {
  const endpoint = optional(environment.WAVEPOOL_S3_ENDPOINT);
  const place = optional(environment.WAVEPOOL_STORAGE);
  const roots = optional(environment.WAVEPOOL_OBJECT_ROOTS)?.split(',') ?? [];
  const pathStyle = optional(environment.WAVEPOOL_S3_PATH_STYLE) ?? String(endpoint !== undefined);
  const parsed = S3Settings.safeParse({
    place: place === undefined ? undefined : parseObjectPlace(place),
    inputRoots: roots.map((root) => parseObjectPlace(root.trim())),
    endpoint,
    publicEndpoint: optional(environment.WAVEPOOL_S3_PUBLIC_ENDPOINT),
    region: optional(environment.WAVEPOOL_S3_REGION),
    pathStyle: { true: true, false: false }[pathStyle],
  });
  if (parsed.success) return parsed.data;
  const what = z.prettifyError(parsed.error);
  throw new WavepoolError('INVALID_REQUEST', `WAVEPOOL_S3_…: ${what}`);
}

const LIVE_SECRETS = z.array(WebhookSecret).max(2);

function readWebhooks(environment: Environment): WebhookConfig {
  const { WAVEPOOL_WEBHOOK_SECRET: secrets, WAVEPOOL_WEBHOOK_NETWORKS: networks } = environment;
  const { data: live } = LIVE_SECRETS.safeParse(listOf(secrets));
  if (live === undefined) {
    const form = 'give one or two secrets, each whsec_ and 24 to 64 bytes of base64';
    throw new WavepoolError('INVALID_REQUEST', `WAVEPOOL_WEBHOOK_SECRET: ${form}`);
  }
  const allowed = WebhookLimits.shape.allowedNetworks.safeParse(listOf(networks)).data;
  if (allowed !== undefined) return { secrets: live, allowedNetworks: allowed };
  throw new WavepoolError(
    'INVALID_REQUEST',
    `WAVEPOOL_WEBHOOK_NETWORKS is ${JSON.stringify(networks)}; give networks such as 10.0.0.0/8`,
  );
}

function readTracing(environment: Environment): TracingConfig | undefined {
  const endpoint = optional(environment.OTEL_EXPORTER_OTLP_ENDPOINT);
  const whole = endpoint === undefined ? undefined : `${endpoint.replace(/\/+$/, '')}/v1/traces`;
  const url = optional(environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) ?? whole;
  if (url === undefined || environment.OTEL_SDK_DISABLED?.toLowerCase() === 'true')
    return undefined;
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) {
    return { url, serviceName: optional(environment.OTEL_SERVICE_NAME) ?? 'wavepool' };
  }
  throw new WavepoolError(
    'INVALID_REQUEST',
    `OTEL_EXPORTER_OTLP_ENDPOINT: ${url} is no http(s) address`,
  );
}

/** Separated by commas or blanks. */
function listOf(value: string | undefined): string[] {
  return (value ?? '').split(/[\s,]+/).filter((part) => part !== '');
}

/**
 * Reads the environment once.
 * @throws {WavepoolError} INVALID_REQUEST
 */
export function readConfig(environment: Environment = process.env): Config {
  const home = optional(environment.HOME) ?? homedir();
  const dataHome = xdgFolder(environment.XDG_DATA_HOME) ?? join(home, '.local', 'share');
  const runtimeHome = xdgFolder(environment.XDG_RUNTIME_DIR);
  const userFolder = `wavepool-${userInfo().uid}`;
  return {
    dataDir: optionalPath(environment.WAVEPOOL_DATA_DIR) ?? join(dataHome, 'wavepool'),
    modelsDir:
      optionalPath(environment.WAVEPOOL_MODELS_DIR) ?? join(dataHome, 'wavepool', 'models'),
    runtimeDirs: [
      ...(runtimeHome === undefined ? [] : [join(runtimeHome, 'wavepool')]),
      join(tmpdir(), userFolder),
      join('/tmp', userFolder),
    ],
    redisUrl: optional(environment.WAVEPOOL_REDIS),
    redisServer: optionalPath(environment.WAVEPOOL_REDIS_SERVER),
    searchPath: [
      ...new Set([
        ...(environment.PATH ?? '').split(delimiter).filter((folder) => folder !== ''),
        ...MORE_PROGRAM_FOLDERS,
      ]),
    ],
    addonPath: optionalPath(environment.WAVEPOOL_ADDON),
    maxAudioSeconds: readMaxAudioSeconds(environment.WAVEPOOL_MAX_AUDIO_HOURS),
    s3: readS3(environment),
    webhooks: readWebhooks(environment),
    tracing: readTracing(environment),
    logLevel: readLogLevel(environment.WAVEPOOL_LOG_LEVEL),
  };
}

/** The whole environment, for programs that read their own settings from it, such as npm. */
export function processEnvironment(): Readonly<Record<string, string | undefined>> {
  return process.env;
}

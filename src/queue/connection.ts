/** Connections to Redis: how they are named, how they fail, and whether the server is fit to hold a queue. */
import { Redis, type RedisOptions } from 'ioredis';
import { WavepoolError } from '../core/errors.ts';
import { READINESS_KEY } from './queue-names.ts';

/** Where Redis is. Sentinel and Cluster join this union; only `openConnection` and `describeAddress` look inside. */
export type RedisAddress =
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'socket'; readonly path: string };

/**
 * `fail-fast`: commands fail while Redis is away, so that a caller who waits for an answer gets one.
 * `patient`: commands wait for Redis to come back, for workers and event readers.
 */
export type ConnectionRole = 'fail-fast' | 'patient';

/** Every connection's name starts with this; the private server is stopped when no such connection is left. */
export const CLIENT_NAME_PREFIX = 'wavepool:';

const MAX_RECONNECT_DELAY_MS = 1_000;
/** A caller who waits for an answer waits no longer for a server that is there but says nothing. */
const FAIL_FAST_SILENCE_MS = 5_000;
const OLDEST_VERSION = [6, 2] as const;

export interface ConnectionOptions {
  readonly role: ConnectionRole;
  /** Shown by `CLIENT LIST` after `wavepool:`. */
  readonly name: string;
  /**
   * Take the connection for dead, and reconnect, when the server owes an answer for so long.
   * @defaultValue 5 000 where commands fail fast, else unbounded
   */
  readonly silenceMs?: number;
}

/** For messages: no password. */
export function describeAddress(address: RedisAddress): string {
  if (address.kind === 'socket') return address.path;
  try {
    const url = new URL(address.url);
    return `${url.protocol}//${url.host}${url.pathname}`;
  } catch {
    return 'an address that is no URL';
  }
}

function optionsOf({ role, name, silenceMs }: ConnectionOptions) {
  const patient = role === 'patient';
  const longestSilenceMs = silenceMs ?? (patient ? undefined : FAIL_FAST_SILENCE_MS);
  return {
    connectionName: `${CLIENT_NAME_PREFIX}${name}:${process.pid}`,
    lazyConnect: true,
    retryStrategy: (times: number) =>
      Math.min(20 * 2 ** Math.min(times, 10), MAX_RECONNECT_DELAY_MS),
    // Each connection that breaks counts as a try: a command that fails fast is not sent twice.
    maxRetriesPerRequest: patient ? null : 0,
    enableOfflineQueue: patient,
    ...(longestSilenceMs === undefined ? {} : { socketTimeout: longestSilenceMs }),
  } satisfies RedisOptions;
}

/**
 * A connection that connects on `connect()`, or by itself when BullMQ first needs it.
 * Connection errors are not thrown at nobody: they surface in the commands that they make fail.
 */
export function openConnection(address: RedisAddress, options: ConnectionOptions): Redis {
  const connection =
    address.kind === 'socket'
      ? new Redis({ ...optionsOf(options), path: address.path })
      : new Redis(address.url, optionsOf(options));
  connection.on('error', () => undefined);
  return connection;
}

/**
 * Connects for the first time.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function connect(connection: Redis, address: RedisAddress): Promise<void> {
  let cause: Error | undefined;
  const remember = (error: Error): void => {
    cause = error;
  };
  connection.on('error', remember);
  try {
    await connection.connect();
  } catch (error) {
    connection.disconnect();
    const why = cause ?? error;
    const text = why instanceof Error ? why.message : String(why);
    throw new WavepoolError('REDIS_UNAVAILABLE', `${describeAddress(address)}: ${text}`, {
      cause: why,
    });
  } finally {
    connection.off('error', remember);
  }
}

/**
 * Closes for good; commands that still wait are rejected. A connection that is about to reconnect would leave them waiting
 * for ever: it makes its attempt, and ends with it either way.
 */
export function closeConnection(connection: Redis): void {
  // Disconnecting what has already ended would only start a timer that keeps the process alive.
  if (connection.status === 'end') return;
  connection.options.retryStrategy = () => null;
  if (connection.status === 'reconnecting')
    connection.once('connect', () => connection.disconnect());
  else connection.disconnect();
}

const UNAVAILABLE =
  /^Connection is closed|^Stream isn't writeable|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|connect ENOENT|^LOADING|^Command timed out|^Socket timeout/;

/** Out of memory, or of disk for the append-only file; scripts wrap the words. */
const TAKES_NO_WRITES = /\bOOM command not allowed|\bMISCONF\b/;

/** A lost connection as REDIS_UNAVAILABLE, a server without room as REDIS_FULL; everything else as it is. */
export function toRedisError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof WavepoolError) return error;
  if (error.name === 'MaxRetriesPerRequestError' || UNAVAILABLE.test(error.message)) {
    return new WavepoolError('REDIS_UNAVAILABLE', error.message, { cause: error });
  }
  if (TAKES_NO_WRITES.test(error.message)) {
    return new WavepoolError('REDIS_FULL', error.message, { cause: error });
  }
  return error;
}

export interface RedisFacts {
  readonly version: string;
  readonly maxmemoryPolicy: string;
}

function infoField(info: string, field: string): string | undefined {
  return new RegExp(`^${field}:(.*?)\\r?$`, 'm').exec(info)?.[1];
}

/**
 * Whether this server can hold the queue.
 * @throws {WavepoolError} REDIS_UNSUITABLE saying what to change, REDIS_UNAVAILABLE
 */
export async function checkRedis(connection: Redis): Promise<RedisFacts> {
  let info: string;
  try {
    info = await connection.info();
  } catch (error) {
    throw toRedisError(error);
  }
  const version = infoField(info, 'redis_version') ?? '0';
  const maxmemoryPolicy = infoField(info, 'maxmemory_policy') ?? 'noeviction';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor, oldestMinor] = OLDEST_VERSION;
  if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
    throw new WavepoolError(
      'REDIS_UNSUITABLE',
      `it is version ${version}; upgrade it to ${OLDEST_VERSION.join('.')} or newer`,
    );
  }
  if (maxmemoryPolicy !== 'noeviction') {
    throw new WavepoolError(
      'REDIS_UNSUITABLE',
      `its maxmemory-policy is ${maxmemoryPolicy}, which would drop jobs; set it with ` +
        '`redis-cli CONFIG SET maxmemory-policy noeviction` and in its configuration file',
    );
  }
  return { version, maxmemoryPolicy };
}

/**
 * Whether jobs could be added now: the server answers, still suits, and takes writes.
 * @throws {WavepoolError} REDIS_UNAVAILABLE, REDIS_UNSUITABLE, REDIS_FULL
 */
export async function assertTakesJobs(connection: Redis): Promise<void> {
  await checkRedis(connection);
  try {
    await connection.set(READINESS_KEY, '1', 'PX', 10_000);
  } catch (error) {
    throw toRedisError(error);
  }
}

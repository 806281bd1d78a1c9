/** Connections to Redis: how they are named, how they fail, and whether the server is fit to hold a queue. */
import { Redis, type RedisOptions } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { CLUSTER_SLOT, connectorTo, isOnCluster } from './cluster-connector.ts';
import { readinessKey } from './queue-names.ts';
import { describeRedisUrl, parseRedisUrl, type RedisTarget } from './redis-url.ts';

/** Where Redis is; a URL may be that of Sentinels or a Cluster: see `parseRedisUrl`. */
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
/** Where another server takes over, nobody waits for one whose machine is gone; longer than any call blocks. */
const FAILOVER_SILENCE_MS = 30_000;
/** An idle connection, such as a subscriber's, finds out by itself that the other machine is gone. */
const KEEP_ALIVE_MS = 10_000;
const HIGH_AVAILABILITY_TIMEOUT_MS = 3_000;
const OLDEST_VERSION = [6, 2] as const;

export interface ConnectionOptions {
  readonly role: ConnectionRole;
  /** Shown by `CLIENT LIST` after `wavepool:`. */
  readonly name: string;
  /**
   * Take the connection for dead, and reconnect, when the server owes an answer for so long.
   * @defaultValue 5 000 where commands fail fast, else 30 000 with Sentinels or a Cluster, else unbounded
   */
  readonly silenceMs?: number;
}

/** For messages: no password. */
export function describeAddress(address: RedisAddress): string {
  return address.kind === 'socket' ? address.path : describeRedisUrl(address.url);
}

/**
 * Said by a server that does not take the command now, before anything was done: it has become a replica, is not the
 * one that has the key, loads its data, or knows too few replicas. The command is sent again when the connection has been
 * opened anew, for that is when the right server is looked for.
 */
const ASK_AGAIN = new RegExp(
  `^(READONLY|UNBLOCKED|LOADING|MASTERDOWN|NOREPLICAS|TRYAGAIN|CLUSTERDOWN|(MOVED|ASK) ${CLUSTER_SLOT})\\b`,
);

/** Grows while connections are refused or answer that they are the wrong one. */
function backoff() {
  let refusals = 0;
  return {
    retryStrategy: (times: number) =>
      Math.min(20 * 2 ** Math.min(times + refusals, 10), MAX_RECONNECT_DELAY_MS),
    reconnectOnError: (error: Error): false | 2 => {
      if (!ASK_AGAIN.test(error.message)) {
        refusals = 0;
        return false;
      }
      refusals += 1;
      return 2;
    },
  };
}

function optionsOf({ role, name, silenceMs }: ConnectionOptions, target: RedisTarget['kind']) {
  const patient = role === 'patient';
  const patientSilenceMs = target === 'server' ? undefined : FAILOVER_SILENCE_MS;
  const longestSilenceMs = silenceMs ?? (patient ? patientSilenceMs : FAIL_FAST_SILENCE_MS);
  return {
    connectionName: `${CLIENT_NAME_PREFIX}${name}:${process.pid}`,
    lazyConnect: true,
    ...backoff(),
    keepAlive: KEEP_ALIVE_MS,
    // Each connection that breaks counts as a try: a command that fails fast is not sent twice.
    maxRetriesPerRequest: patient ? null : 0,
    enableOfflineQueue: patient,
    ...(longestSilenceMs === undefined ? {} : { socketTimeout: longestSilenceMs }),
    ...(target === 'server' ? {} : { connectTimeout: HIGH_AVAILABILITY_TIMEOUT_MS }),
  } satisfies RedisOptions;
}

type Options = ReturnType<typeof optionsOf>;

function openCluster(target: Extract<RedisTarget, { kind: 'cluster' }>, options: Options): Redis {
  return new Redis({ ...options, ...accessOf(target), Connector: connectorTo(target.hosts) });
}

function openSentinel(target: Extract<RedisTarget, { kind: 'sentinel' }>, options: Options): Redis {
  const { hosts, master, db, tls, sentinelUsername, sentinelPassword } = target;
  return new Redis({
    ...options,
    ...accessOf(target),
    db,
    name: master,
    sentinels: [...hosts],
    sentinelRetryStrategy: options.retryStrategy,
    sentinelCommandTimeout: HIGH_AVAILABILITY_TIMEOUT_MS,
    ...(sentinelUsername === undefined ? {} : { sentinelUsername }),
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
    ...(tls ? { sentinelTLS: {}, enableTLSForSentinelMode: true } : {}),
  });
}

function accessOf({ tls, username, password }: Exclude<RedisTarget, { kind: 'server' }>) {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
  };
}

/**
 * A connection that connects on `connect()`, or by itself when BullMQ first needs it.
 * Connection errors are not thrown at nobody: they surface in the commands that they make fail.
 * @throws {WavepoolError} INVALID_REQUEST
 */
export function openConnection(address: RedisAddress, options: ConnectionOptions): Redis {
  const connection = newConnection(address, options);
  connection.on('error', () => undefined);
  return connection;
}

function newConnection(address: RedisAddress, options: ConnectionOptions): Redis {
  if (address.kind === 'socket')
    return new Redis({ ...optionsOf(options, 'server'), path: address.path });
  const target = parseRedisUrl(address.url);
  const common = optionsOf(options, target.kind);
  switch (target.kind) {
    case 'server':
      return new Redis(target.url, common);
    case 'sentinel':
      return openSentinel(target, common);
    case 'cluster':
      return openCluster(target, common);
    default:
      return target satisfies never;
  }
}

/**
 * Connects for the first time.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function connect(connection: Redis, address: RedisAddress): Promise<void> {
  let cause: Error | undefined;
  let remember: ((error: Error) => void) | undefined;
  // Where the right server is looked for, that goes on after the first failure.
  const failure = new Promise<never>((_, reject) => {
    remember = (error) => {
      cause = error;
      reject(error);
    };
    connection.on('error', remember);
  });
  try {
    await Promise.race([connection.connect(), failure]);
  } catch (error) {
    connection.disconnect();
    const why = cause ?? error;
    const text = why instanceof Error ? why.message : String(why);
    throw new WavepoolError('REDIS_UNAVAILABLE', `${describeAddress(address)}: ${text}`, {
      cause: why,
    });
  } finally {
    if (remember) connection.off('error', remember);
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
  connection.options.sentinelRetryStrategy = () => null;
  if (connection.status === 'reconnecting')
    connection.once('connect', () => connection.disconnect());
  else connection.disconnect();
}

const UNAVAILABLE =
  /^Connection is closed|^Stream isn't writeable|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|connect ENOENT|^Command timed out|^Socket timeout|^Command aborted due to connection close|^EXECABORT|^All sentinels are unreachable|^no node of the Cluster/;

/** Out of memory, or of disk for the append-only file; scripts wrap the words. */
const TAKES_NO_WRITES = /\bOOM command not allowed|\bMISCONF\b/;

/** A lost connection as REDIS_UNAVAILABLE, a server without room as REDIS_FULL; everything else as it is. */
export function toRedisError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof WavepoolError) return error;
  if (
    error.name === 'MaxRetriesPerRequestError' ||
    UNAVAILABLE.test(error.message) ||
    ASK_AGAIN.test(error.message)
  ) {
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
  if (infoField(info, 'role') === 'slave') {
    const detail =
      'it is a replica, which takes no writes; give the address of its primary, or of its Sentinels';
    throw new WavepoolError('REDIS_UNSUITABLE', detail);
  }
  if (infoField(info, 'redis_mode') === 'cluster' && !isOnCluster(connection)) {
    const detail = 'it is a node of a Cluster; give the address as redis+cluster://HOST:PORT';
    throw new WavepoolError('REDIS_UNSUITABLE', detail);
  }
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
    await connection.set(readinessKey(connection), '1', 'PX', 10_000);
  } catch (error) {
    throw toRedisError(error);
  }
}

import { once } from 'node:events';
import { mkdir, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Config } from '../../core/config.ts';
import { type ErrorCode, toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { LockFile, LockHeldError } from '../../core/files/lock-file.ts';
import { processState } from '../../core/files/process-identity.ts';
import type { ServerRecord } from '../../core/files/server-record.ts';
import {
  CLIENT_NAME_PREFIX,
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from './connection.ts';
import { findRedisServer } from './redis-binary.ts';
import {
  adoptServer,
  readServerRecord,
  removeTraces,
  socketExists,
  startServer,
  terminateServer,
  waitUntilServing,
  waitUntilStopped,
  writeServerRecord,
} from './redis-process.ts';
import { isPrivateFolder, socketPath } from './socket-path.ts';

export interface EmbeddedRedisOptions
  extends Pick<Config, 'dataDir' | 'runtimeDirs' | 'redisServer' | 'searchPath'> {
  /** Ends the wait in `acquire`. */
  readonly signal?: AbortSignal | undefined;
  /** Told, once for each code in a row, when a server that died cannot be started again; attempts go on by themselves. */
  readonly onError?: ((error: WavepoolError) => void) | undefined;
}

/** A connection that was just closed may still be listed for a moment. */
const LAST_OUT_CHECKS = 4;
const LAST_OUT_PAUSE_MS = 25;
const RECONNECT_WAIT_MS = 3_000;
const NO_ROOM = new Set<unknown>(['ENOSPC', 'EDQUOT']);

/**
 * A hold on the private Redis of a data directory.
 *
 * Starting, joining and leaving happen under one lock, so there is never a second server on the folder. Every hold keeps a
 * named connection open: the server runs while one is left, and whoever leaves last stops it. When the server dies, each
 * holder restarts it (the first one does; the others find it running) on the same socket, so that every other connection
 * comes back by itself.
 */
export class EmbeddedRedis {
  readonly address: RedisAddress;
  readonly #options: EmbeddedRedisOptions;
  readonly #folder: string;
  readonly #hold: Redis;
  #record: ServerRecord;
  #reviving: Promise<void> | undefined;
  #told: ErrorCode | undefined;
  #releasing: Promise<boolean> | undefined;

  private constructor(
    options: EmbeddedRedisOptions,
    folder: string,
    record: ServerRecord,
    hold: Redis,
  ) {
    this.#options = options;
    this.#folder = folder;
    this.#record = record;
    this.#hold = hold;
    this.address = { kind: 'socket', path: record.socket };
    hold.on('close', () => {
      if (this.#releasing !== undefined) return;
      this.ensure().catch((error: unknown) => this.#tell(toWavepoolError(error)));
    });
  }

  /**
   * Joins the server of `dataDir`, or starts it.
   * @throws {WavepoolError} REDIS_MISSING, REDIS_UNAVAILABLE, REDIS_UNSUITABLE, REDIS_FULL
   */
  static async acquire(options: EmbeddedRedisOptions): Promise<EmbeddedRedis> {
    const folder = join(options.dataDir, 'redis');
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await using _ = await lock(folder, options.signal);
    const record = await joinOrStart(folder, options);
    const address: RedisAddress = { kind: 'socket', path: record.socket };
    const hold = openConnection(address, { role: 'patient', name: 'hold' });
    await connect(hold, address);
    return new EmbeddedRedis(options, folder, record, hold);
  }

  /**
   * Stops the server of `dataDir` when nobody is connected any more: for a process that outlives the holder it worked for.
   * @returns whether it was stopped
   */
  static async stopUnused(options: Pick<EmbeddedRedisOptions, 'dataDir'>): Promise<boolean> {
    const folder = join(options.dataDir, 'redis');
    await using _ = await lock(folder, undefined);
    const record = await readServerRecord(folder);
    if (record === undefined || (await processState(record.server)) !== 'alive') return false;
    const address: RedisAddress = { kind: 'socket', path: record.socket };
    const connection = openConnection(address, { role: 'fail-fast', name: 'last' });
    try {
      await connect(connection, address);
      return await stopIfLast(connection, folder, record);
    } finally {
      closeConnection(connection);
    }
  }

  get serverPid(): number {
    return this.#record.server.pid;
  }

  /**
   * Restarts the server if it died; returns once it serves. Also happens by itself.
   * @throws {WavepoolError} REDIS_MISSING, REDIS_UNAVAILABLE, REDIS_FULL
   */
  ensure(): Promise<void> {
    this.#reviving ??= this.#revive().finally(() => {
      this.#reviving = undefined;
    });
    return this.#reviving;
  }

  /**
   * Gives up this hold; close the queues before. Idempotent.
   * @returns whether the server was stopped because nobody else was connected
   */
  release(): Promise<boolean> {
    this.#releasing ??= this.#leave();
    return this.#releasing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #revive(): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await using _ = await lock(this.#folder, undefined);
    if (this.#releasing !== undefined) return;
    // The signal was for `acquire`: a holder that shuts down still needs the server to give its jobs back.
    this.#record = await joinOrStart(this.#folder, { ...this.#options, signal: undefined });
    this.#told = undefined;
  }

  #tell(error: WavepoolError): void {
    if (error.code === this.#told) return;
    this.#told = error.code;
    this.#options.onError?.(error);
  }

  async #leave(): Promise<boolean> {
    await this.#reviving?.catch(() => undefined);
    try {
      await using _ = await lock(this.#folder, undefined);
      const record = await readServerRecord(this.#folder);
      if (record === undefined || (await processState(record.server)) !== 'alive') return false;
      if (!(await this.#isConnected())) return false;
      return await stopIfLast(this.#hold, this.#folder, record);
    } catch (error) {
      // No room for the lock: a server that still runs is found by whoever comes next.
      if (error instanceof WavepoolError && error.code === 'REDIS_FULL') return false;
      throw error;
    } finally {
      closeConnection(this.#hold);
    }
  }

  /** After a restart of the server this connection may need a moment to come back. */
  async #isConnected(): Promise<boolean> {
    if (this.#hold.status === 'ready') return true;
    return once(this.#hold, 'ready', { signal: AbortSignal.timeout(RECONNECT_WAIT_MS) }).then(
      () => true,
      () => false,
    );
  }
}

/** Stops the server unless somebody else is connected. Called under the lock. */
async function stopIfLast(
  connection: Redis,
  folder: string,
  record: ServerRecord,
): Promise<boolean> {
  if (await othersAreConnected(connection)) return false;
  // With an append-only log there is nothing else to save: the log is synced before the server ends.
  connection.options.retryStrategy = () => null;
  await connection.shutdown('NOSAVE').catch(() => undefined);
  await waitUntilStopped(record);
  await removeTraces(folder, record);
  return true;
}

async function othersAreConnected(connection: Redis): Promise<boolean> {
  const self = await connection.client('ID');
  for (let check = 1; ; check++) {
    const list = String(await connection.client('LIST'));
    const others = list.split('\n').some((line) => {
      const [, id] = /(?:^| )id=(\d+)/.exec(line) ?? [];
      const [, name = ''] = / name=(\S*)/.exec(line) ?? [];
      return name.startsWith(CLIENT_NAME_PREFIX) && id !== String(self);
    });
    if (!others || check === LAST_OUT_CHECKS) return others;
    await sleep(LAST_OUT_PAUSE_MS);
  }
}

async function lock(folder: string, signal: AbortSignal | undefined): Promise<LockFile> {
  try {
    return await LockFile.acquire(join(folder, 'lock'), { signal });
  } catch (error) {
    if (error instanceof LockHeldError) {
      throw new WavepoolError('REDIS_UNAVAILABLE', error.message, { cause: error });
    }
    if (error instanceof Error && 'code' in error && NO_ROOM.has(error.code)) {
      throw new WavepoolError('REDIS_FULL', error.message, { cause: error });
    }
    throw error;
  }
}

/** The running server of the folder, or a new one. Called under the lock. */
async function joinOrStart(folder: string, options: EmbeddedRedisOptions): Promise<ServerRecord> {
  const previous = await readServerRecord(folder);
  if (previous !== undefined) {
    const state = await processState(previous.server);
    if (state === 'elsewhere') {
      throw new WavepoolError(
        'REDIS_UNAVAILABLE',
        `${folder} is used by a server on ${previous.server.host}; if it is gone, remove ${join(folder, 'server.json')}`,
      );
    }
    if (state === 'alive' && (await socketExists(previous.socket))) {
      await waitUntilServing(folder, previous, options.signal);
      return previous;
    }
    // Temporary folders get cleaned: without its socket nobody can reach the server, but it still owns the log.
    if (state === 'alive') await terminateServer(previous);
  }
  const socket = await chooseSocket(previous, folder, options);
  const unrecorded = await adoptServer(folder, socket);
  if (unrecorded !== undefined) {
    writeServerRecord(folder, unrecorded);
    return unrecorded;
  }
  return startServer(await findRedisServer(options), folder, socket, options.signal);
}

/** Keeps the socket of the server before: others wait there for it to come back. */
async function chooseSocket(
  previous: ServerRecord | undefined,
  folder: string,
  options: EmbeddedRedisOptions,
): Promise<string> {
  if (previous !== undefined && (await isPrivateFolder(dirname(previous.socket)))) {
    return previous.socket;
  }
  return socketPath(await realpath(folder), options.runtimeDirs);
}

/** The private server as a process: start it, find it again, stop it. Every call is made under the data directory's lock. */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { lstat, readFile, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { identifyProcess, processState } from '../../core/files/process-identity.ts';
import { parseServerRecord, type ServerRecord } from '../../core/files/server-record.ts';
import { closeConnection } from './connection.ts';
import type { RedisBinary } from './redis-binary.ts';

const RECORD = 'server.json';
const LOG = 'redis.log';
const POLL_MS = 20;
const PROBE_TIMEOUT_MS = 2_000;
const ANSWER_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 30_000;
/** With less, a server would serve until its first write. */
const LEAST_ROOM_BYTES = 2 ** 20;

async function folderIdentity(folder: string): Promise<string> {
  const { dev, ino } = await stat(folder);
  return `${dev}:${ino}`;
}

/** The record of this very folder; one that came along with a copy of its files is not. */
export async function readServerRecord(folder: string): Promise<ServerRecord | undefined> {
  const text = await readFile(join(folder, RECORD), 'utf8').catch(() => undefined);
  const record = text === undefined ? undefined : parseServerRecord(text);
  return record?.folder === (await folderIdentity(folder)) ? record : undefined;
}

export function writeServerRecord(folder: string, record: ServerRecord): void {
  writeFileSync(join(folder, RECORD), JSON.stringify(record), { mode: 0o600 });
}

/** Removes what a stopped server leaves behind. */
export async function removeTraces(folder: string, record: ServerRecord): Promise<void> {
  await rm(record.socket, { force: true });
  await rm(join(folder, RECORD), { force: true });
}

export async function socketExists(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isSocket(),
    () => false,
  );
}

/**
 * `appendfsync always`: nothing is confirmed before it is on the disk. With `everysec` writes wait in the process's memory for
 * up to two seconds while the disk is busy, and go with it when it is killed. The price: a server that cannot write its log
 * ends, since it could not take back what others may have read already.
 */
function serverArguments(folder: string, socket: string): string[] {
  const settings: Record<string, string> = {
    port: '0',
    unixsocket: socket,
    unixsocketperm: '700',
    dir: folder,
    logfile: join(folder, LOG),
    daemonize: 'no',
    appendonly: 'yes',
    appendfsync: 'always',
    'no-appendfsync-on-rewrite': 'no',
    save: '',
    'maxmemory-policy': 'noeviction',
  };
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
}

/** A connection for one question. Its limit is the socket's: a command's own time limit would keep the process alive. */
function openProbe(socket: string, silenceMs: number): Redis {
  const connection = new Redis({
    path: socket,
    lazyConnect: true,
    enableReadyCheck: false,
    maxRetriesPerRequest: 0,
    socketTimeout: silenceMs,
    retryStrategy: () => null,
  });
  connection.on('error', () => undefined);
  return connection;
}

/** What the socket says: `loading` while the server reads its log, `silent` when nobody listens or answers. */
async function probe(socket: string): Promise<'serving' | 'loading' | 'silent'> {
  const connection = openProbe(socket, PROBE_TIMEOUT_MS);
  try {
    await connection.connect();
    await connection.ping();
    return 'serving';
  } catch (error) {
    return error instanceof Error && error.message.startsWith('LOADING') ? 'loading' : 'silent';
  } finally {
    closeConnection(connection);
  }
}

async function lastWords(folder: string): Promise<string> {
  const log = await readFile(join(folder, LOG), 'utf8').catch(() => '');
  return log.trimEnd().split('\n').slice(-3).join(' | ');
}

/**
 * Returns once the server answers; reading a long log may take it minutes.
 * @throws {WavepoolError} REDIS_UNAVAILABLE when the process ends or says nothing
 */
export async function waitUntilServing(
  folder: string,
  record: ServerRecord,
  signal?: AbortSignal,
): Promise<void> {
  const { server, socket } = record;
  let giveUpAt = performance.now() + ANSWER_TIMEOUT_MS;
  for (;;) {
    const state = await probe(socket);
    if (state === 'serving') return;
    if ((await processState(server)) === 'dead') {
      throw new WavepoolError('REDIS_UNAVAILABLE', `it ended at once: ${await lastWords(folder)}`);
    }
    if (state === 'loading') giveUpAt = performance.now() + ANSWER_TIMEOUT_MS;
    if (performance.now() > giveUpAt) {
      throw new WavepoolError(
        'REDIS_UNAVAILABLE',
        `process ${server.pid} does not answer on ${socket}`,
      );
    }
    await sleep(POLL_MS, undefined, { signal });
  }
}

async function assertRoom(folder: string): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < LEAST_ROOM_BYTES) {
    throw new WavepoolError('REDIS_FULL', `the disk of ${folder} is full`);
  }
}

/**
 * Starts a detached server: it outlives this process, and a Ctrl-C in the terminal does not reach it.
 * @throws {WavepoolError} REDIS_FULL, REDIS_UNAVAILABLE
 */
export async function startServer(
  binary: RedisBinary,
  folder: string,
  socket: string,
  signal?: AbortSignal,
): Promise<ServerRecord> {
  await assertRoom(folder);
  const child = spawn(binary.path, serverArguments(folder, socket), {
    cwd: dirname(folder),
    detached: true,
    stdio: 'ignore',
  });
  const failed = new Promise<never>((_, reject) => {
    child.once('error', (error) =>
      reject(new WavepoolError('REDIS_UNAVAILABLE', error.message, { cause: error })),
    );
  });
  const started = (async () => {
    const server = child.pid === undefined ? undefined : await identifyProcess(child.pid);
    if (server === undefined) {
      throw new WavepoolError('REDIS_UNAVAILABLE', `it ended at once: ${await lastWords(folder)}`);
    }
    const record = { server, socket, folder: await folderIdentity(folder) };
    writeServerRecord(folder, record);
    await waitUntilServing(folder, record, signal);
    return record;
  })();
  child.unref();
  return Promise.race([started, failed]);
}

/** A server that answers on a socket although no record names it. */
export async function adoptServer(
  folder: string,
  socket: string,
): Promise<ServerRecord | undefined> {
  if (!(await socketExists(socket))) return undefined;
  const connection = openProbe(socket, ANSWER_TIMEOUT_MS);
  try {
    await connection.connect();
    const pid = Number(/^process_id:(\d+)/m.exec(await connection.info('server'))?.[1]);
    const server = await identifyProcess(pid);
    if (server === undefined) return undefined;
    return { server, socket, folder: await folderIdentity(folder) };
  } catch {
    return undefined;
  } finally {
    closeConnection(connection);
  }
}

/**
 * Returns once the process is gone.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function waitUntilStopped(record: ServerRecord): Promise<void> {
  const giveUpAt = performance.now() + STOP_TIMEOUT_MS;
  while ((await processState(record.server)) === 'alive') {
    if (performance.now() > giveUpAt) {
      throw new WavepoolError('REDIS_UNAVAILABLE', `process ${record.server.pid} does not stop`);
    }
    await sleep(POLL_MS);
  }
}

/** Stops a server that nobody can reach any more; it writes its log to the end first. */
export async function terminateServer(record: ServerRecord): Promise<void> {
  process.kill(record.server.pid, 'SIGTERM');
  await waitUntilStopped(record);
}

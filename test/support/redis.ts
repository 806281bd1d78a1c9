/** A private Redis for a test file, through the same code that users get theirs from. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { readConfig } from '../../src/core/config.ts';
import { connect, openConnection, type RedisAddress } from '../../src/queue/redis/connection.ts';
import { EmbeddedRedis, type EmbeddedRedisOptions } from '../../src/queue/redis/embedded-redis.ts';
import { signalProcess } from './process-table.ts';

/** A temporary folder; `await using` removes it. */
export async function temporaryFolder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), 'wavepool-test-'));
  return {
    path,
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

/** Options for a private server of `dataDir`, with its socket beside it. */
export function redisOptions(dataDir: string): EmbeddedRedisOptions {
  return { ...readConfig(), dataDir, runtimeDirs: [join(dataDir, 'run')] };
}

export interface TestRedis extends AsyncDisposable {
  readonly address: RedisAddress;
  readonly dataDir: string;
  readonly embedded: EmbeddedRedis;
  /** A plain connection that is closed with the server. */
  connection(): Promise<Redis>;
}

/** Starts a server in a temporary data directory; disposing stops it whoever is still connected. */
export async function startRedis(): Promise<TestRedis> {
  const folder = await temporaryFolder();
  const embedded = await EmbeddedRedis.acquire(redisOptions(folder.path));
  const opened: Redis[] = [];
  return {
    address: embedded.address,
    dataDir: folder.path,
    embedded,
    connection: async () => {
      const connection = openConnection(embedded.address, { role: 'patient', name: 'test' });
      await connect(connection, embedded.address);
      opened.push(connection);
      return connection;
    },
    [Symbol.asyncDispose]: async () => {
      for (const connection of opened) connection.disconnect();
      const { serverPid } = embedded;
      const stopped = await embedded.release();
      await folder[Symbol.asyncDispose]();
      if (stopped) return;
      signalProcess(serverPid, 'SIGKILL');
      throw new Error('the test left connections to its Redis open');
    },
  };
}

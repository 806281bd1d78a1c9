/** What a Redis of one's own promises about confirmed work. */
import type { Redis } from 'ioredis';
import { checkRedis, closeConnection, connect, openConnection } from './connection.ts';

export interface Persistence {
  readonly version: string;
  /** Undefined where the server does not tell: hosted ones often refuse CONFIG. */
  readonly appendOnly: boolean | undefined;
  /** `always`, `everysec` or `no`. */
  readonly fsync: string | undefined;
}

/** @throws {WavepoolError} REDIS_UNAVAILABLE, REDIS_UNSUITABLE */
export async function readPersistence(url: string): Promise<Persistence> {
  const address = { kind: 'url', url } as const;
  const connection = openConnection(address, { role: 'fail-fast', name: 'doctor' });
  try {
    await connect(connection, address);
    const { version } = await checkRedis(connection);
    const appendOnly = await setting(connection, 'appendonly');
    const fsync = await setting(connection, 'appendfsync');
    return {
      version,
      appendOnly: appendOnly === undefined ? undefined : appendOnly === 'yes',
      fsync,
    };
  } finally {
    closeConnection(connection);
  }
}

async function setting(connection: Redis, name: string): Promise<string | undefined> {
  const answer: unknown = await connection.config('GET', name).catch(() => undefined);
  const value: unknown = Array.isArray(answer) ? answer[1] : undefined;
  return typeof value === 'string' ? value : undefined;
}

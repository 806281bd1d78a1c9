import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import type { WavepoolError } from '../../../src/core/errors.ts';
import { identifyProcess, processState } from '../../../src/core/files/process-identity.ts';
import { closeConnection, openConnection } from '../../../src/queue/redis/connection.ts';
import { EmbeddedRedis } from '../../../src/queue/redis/embedded-redis.ts';
import { readServerRecord } from '../../../src/queue/redis/redis-process.ts';
import { compileProgram } from '../../support/compile.ts';
import { signalProcess } from '../../support/process-table.ts';
import { redisOptions, startRedis, temporaryFolder } from '../../support/redis.ts';
import { SMALL_DISKS, SmallDisk } from '../../support/small-disk.ts';
import type { HolderReply, HolderRequest } from './redis-holder.ts';

// Server processes are started here, on machines that may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

async function ask(child: ChildProcess, request: HolderRequest): Promise<HolderReply> {
  child.send(request);
  const [reply]: HolderReply[] = await once(child, 'message');
  if (reply === undefined || reply.type === 'error') throw new Error(reply?.message);
  return reply;
}

test('two processes that start at once get one server, fifty times over, and its data lasts', async () => {
  await using folder = await temporaryFolder();
  await using program = await compileProgram(join(import.meta.dirname, 'redis-holder.ts'));
  const children = [fork(program.path), fork(program.path)];
  try {
    for (let round = 1; round <= 50; round++) {
      const acquired = await Promise.all(
        children.map((child) => ask(child, { type: 'acquire', dataDir: folder.path })),
      );
      const pids = acquired.map((reply) => reply.type === 'acquired' && reply.serverPid);
      const counts = acquired.map((reply) => reply.type === 'acquired' && reply.count).sort();
      expect(pids[0]).toBe(pids[1]);
      expect(new Set(counts)).toEqual(new Set([2 * round - 1, 2 * round]));

      const released = await Promise.all(children.map((child) => ask(child, { type: 'release' })));
      expect(released.filter((reply) => reply.type === 'released' && reply.stopped)).toHaveLength(
        1,
      );
      expect(await identifyProcess(Number(pids[0]))).toBeUndefined();
    }
  } finally {
    await Promise.all(
      children.map(async (child) => {
        const exited = once(child, 'exit');
        child.disconnect();
        await exited;
      }),
    );
  }
});

test('whoever leaves last stops the server, and leaving twice changes nothing', async () => {
  await using folder = await temporaryFolder();
  const first = await EmbeddedRedis.acquire(redisOptions(folder.path));
  const second = await EmbeddedRedis.acquire(redisOptions(folder.path));
  expect(second.serverPid).toBe(first.serverPid);
  expect(second.address).toEqual(first.address);

  expect(await first.release()).toBe(false);
  expect(await identifyProcess(second.serverPid)).toBeDefined();
  expect(await second.release()).toBe(true);
  expect(await second.release()).toBe(true);
  expect(await identifyProcess(second.serverPid)).toBeUndefined();
});

test('a connection with our name keeps the server running, whoever opened it', async () => {
  await using redis = await startRedis();
  const other = await EmbeddedRedis.acquire(redisOptions(redis.dataDir));
  await redis.connection();
  expect(await other.release()).toBe(false);
  expect(await identifyProcess(other.serverPid)).toBeDefined();
});

test('a killed server comes back on the same socket with its data, and connections recover', async () => {
  await using redis = await startRedis();
  const connection = await redis.connection();
  await connection.set('kept', 'yes');
  const killed = redis.embedded.serverPid;
  signalProcess(killed, 'SIGKILL');
  await once(connection, 'close');

  expect(await connection.get('kept')).toBe('yes');
  await redis.embedded.ensure();
  expect(redis.embedded.serverPid).not.toBe(killed);
  expect(redis.embedded.address).toEqual(redis.address);
});

test('what the server has confirmed is on the disk', async () => {
  await using redis = await startRedis();
  const connection = await redis.connection();
  for (const [name, value] of [
    ['appendfsync', 'always'],
    ['no-appendfsync-on-rewrite', 'no'],
  ] as const) {
    expect(await connection.config('GET', name)).toEqual([name, value]);
  }
});

test.skipIf(!SMALL_DISKS)('a full disk ends the server, which says so and comes back', async () => {
  await using disk = await SmallDisk.mount(8 * 2 ** 20);
  await using folder = await temporaryFolder();
  const heard: WavepoolError[] = [];
  await using redis = await EmbeddedRedis.acquire({
    ...redisOptions(disk.path),
    runtimeDirs: [join(folder.path, 'run')],
    onError: (error) => void heard.push(error),
  });
  const connection = openConnection(redis.address, { role: 'patient', name: 'test' });
  await connection.set('kept', 'yes');
  await disk.fill();
  const written = connection.set('waiting', 'x'.repeat(2 ** 16));
  await expect.poll(() => heard.at(-1), { timeout: 30_000 }).toMatchObject({ code: 'REDIS_FULL' });
  await expect(EmbeddedRedis.acquire(redisOptions(disk.path))).rejects.toMatchObject({
    code: 'REDIS_FULL',
  });

  await disk.free();
  expect(await written).toBe('OK');
  expect(await connection.get('kept')).toBe('yes');
  closeConnection(connection);
});

test('a server whose socket was cleaned away is replaced, not doubled', async () => {
  await using redis = await startRedis();
  const connection = await redis.connection();
  await connection.set('kept', 'yes');
  const unreachable = redis.embedded.serverPid;
  if (redis.address.kind !== 'socket') throw new Error('a private server listens on a socket');
  await rm(redis.address.path);

  const next = await EmbeddedRedis.acquire(redisOptions(redis.dataDir));
  expect(next.serverPid).not.toBe(unreachable);
  expect(await identifyProcess(unreachable)).toBeUndefined();
  expect(await connection.get('kept')).toBe('yes');
  await redis.embedded.ensure();
  await next.release();
});

test('two spellings of a data directory share a server; a copy of it gets its own', async () => {
  await using redis = await startRedis();
  await using elsewhere = await temporaryFolder();
  const link = join(elsewhere.path, 'link');
  await symlink(redis.dataDir, link);
  const same = await EmbeddedRedis.acquire(redisOptions(link));
  expect(same.serverPid).toBe(redis.embedded.serverPid);
  await same.release();

  const copy = join(elsewhere.path, 'copy');
  await cp(join(redis.dataDir, 'redis'), join(copy, 'redis'), { recursive: true });
  const copied = await EmbeddedRedis.acquire(redisOptions(copy));
  expect(copied.serverPid).not.toBe(redis.embedded.serverPid);
  expect(await copied.release()).toBe(true);
});

test('a data directory with a very long path still gets a socket', async () => {
  await using folder = await temporaryFolder();
  const dataDir = join(folder.path, 'x'.repeat(200));
  const tooLong = join(dataDir, 'run');
  const embedded = await EmbeddedRedis.acquire({
    ...redisOptions(dataDir),
    runtimeDirs: [tooLong, join(folder.path, 'run')],
  });
  expect(embedded.address).toMatchObject({ path: expect.stringContaining(`${folder.path}/run/`) });
  expect(await embedded.release()).toBe(true);

  await expect(
    EmbeddedRedis.acquire({ ...redisOptions(dataDir), runtimeDirs: [tooLong] }),
  ).rejects.toMatchObject({ code: 'REDIS_UNSUITABLE' });
});

test('the lock of a dead process is taken over, even when its pid runs again', async () => {
  await using folder = await temporaryFolder();
  const self = await identifyProcess(process.pid);
  if (self === undefined) throw new Error('unreachable');
  await mkdir(join(folder.path, 'redis'), { recursive: true });
  await writeFile(
    join(folder.path, 'redis', 'lock'),
    JSON.stringify({ nonce: 'left', process: { ...self, started: 'long ago' } }),
  );
  const embedded = await EmbeddedRedis.acquire(redisOptions(folder.path));
  expect(await embedded.release()).toBe(true);
});

test('a record whose pid belongs to another process now does not count as a server', async () => {
  await using folder = await temporaryFolder();
  const first = await EmbeddedRedis.acquire(redisOptions(folder.path));
  const record = await readServerRecord(join(folder.path, 'redis'));
  if (record === undefined) throw new Error('a running server has a record');
  await first.release();
  await writeFile(
    join(folder.path, 'redis', 'server.json'),
    JSON.stringify({ ...record, server: { ...record.server, pid: process.pid } }),
  );
  const second = await EmbeddedRedis.acquire(redisOptions(folder.path));
  expect(second.serverPid).not.toBe(process.pid);
  expect(await second.release()).toBe(true);
});

test('a folder that a server of another machine uses is refused', async () => {
  await using folder = await temporaryFolder();
  const first = await EmbeddedRedis.acquire(redisOptions(folder.path));
  const record = await readServerRecord(join(folder.path, 'redis'));
  if (record === undefined) throw new Error('a running server has a record');
  expect(await processState(record.server)).toBe('alive');
  await first.release();
  await writeFile(
    join(folder.path, 'redis', 'server.json'),
    JSON.stringify({ ...record, server: { ...record.server, host: `not-${hostname()}` } }),
  );
  await expect(EmbeddedRedis.acquire(redisOptions(folder.path))).rejects.toMatchObject({
    code: 'REDIS_UNAVAILABLE',
    message: expect.stringContaining(`not-${hostname()}`),
  });
});

test('a machine without a server program is told how to install one', async () => {
  await using folder = await temporaryFolder();
  await expect(
    EmbeddedRedis.acquire({ ...redisOptions(folder.path), redisServer: undefined, searchPath: [] }),
  ).rejects.toMatchObject({ code: 'REDIS_MISSING', message: expect.stringContaining('install') });
});

test('a server that cannot start says why', async () => {
  await using folder = await temporaryFolder();
  const first = await EmbeddedRedis.acquire(redisOptions(folder.path));
  await first.release();
  const manifest = join(folder.path, 'redis', 'appendonlydir', 'appendonly.aof.manifest');
  await writeFile(manifest, 'no manifest');
  await expect(EmbeddedRedis.acquire(redisOptions(folder.path))).rejects.toMatchObject({
    code: 'REDIS_UNAVAILABLE',
    message: expect.stringContaining('manifest'),
  });
});

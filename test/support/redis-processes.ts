/** Real Redis processes on this machine: single servers, servers under Sentinels, a Cluster. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { readConfig } from '../../src/core/config.ts';
import type { RedisAddress } from '../../src/queue/redis/connection.ts';
import { findRedisServer } from '../../src/queue/redis/redis-binary.ts';
import { temporaryFolder } from './redis.ts';

const HOST = '127.0.0.1';
/** What the Sentinels call it. */
const MASTER = 'queue';

/** Above, a Cluster's second port would leave the range. */
const HIGHEST_PORT = 50_000;

/** Free on this machine just now, and so low that ten thousand more is a port, too. */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(0, HOST);
    await once(server, 'listening');
    const address = server.address();
    server.close();
    await once(server, 'close');
    const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
    if (port > 0 && port < HIGHEST_PORT) return port;
  }
}

export interface RedisProcess {
  readonly port: number;
  readonly process: ChildProcess;
  /** For the test's own questions. */
  readonly client: Redis;
}

export interface RedisProcesses extends AsyncDisposable {
  /** A server that takes connections. */
  server(settings?: readonly string[]): Promise<RedisProcess>;
  /** Three Sentinels that know each other, and whom to watch. */
  sentinels(settings: readonly string[]): Promise<RedisProcess[]>;
}

/** In memory only; a replica is given its copy at once. */
const SERVER = ['save ""', 'appendonly no', 'repl-diskless-sync-delay 0'];

/** Ends what is still running when disposed of. */
export async function redisProcesses(): Promise<RedisProcesses> {
  const folder = await temporaryFolder();
  const { path: program } = await findRedisServer(readConfig());
  const started: RedisProcess[] = [];

  async function start(port: number, settings: readonly string[], isSentinel: boolean) {
    const file = path.join(folder.path, `${port}.conf`);
    const lines = [`port ${port}`, `bind ${HOST}`, `dir ${folder.path}`, ...settings, ''];
    await writeFile(file, lines.join('\n'));
    const args = isSentinel ? [file, '--sentinel'] : [file];
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    const isUp = isSentinel ? /\+monitor/ : /Ready to accept connections/;
    for await (const line of createInterface(child.stdout)) if (isUp.test(line)) break;
    child.stdout.resume();
    const password = /^requirepass (.+)$/m.exec(lines.join('\n'))?.[1];
    const access = password === undefined ? {} : { password };
    const client = new Redis({ port, host: HOST, maxRetriesPerRequest: 0, ...access });
    client.on('error', () => undefined);
    const running: RedisProcess = { port, process: child, client };
    started.push(running);
    return running;
  }

  async function sentinels(settings: readonly string[]): Promise<RedisProcess[]> {
    const all: { port: number; id: string }[] = [];
    while (all.length < 3)
      all.push({ port: await freePort(), id: randomBytes(20).toString('hex') });
    return Promise.all(
      all.map((own) => {
        const others = all
          .filter((other) => other !== own)
          .map(({ port, id }) => `sentinel known-sentinel ${MASTER} ${HOST} ${port} ${id}`);
        return start(own.port, [`sentinel myid ${own.id}`, ...settings, ...others], true);
      }),
    );
  }

  return {
    server: async (settings = []) => start(await freePort(), [...SERVER, ...settings], false),
    sentinels,
    [Symbol.asyncDispose]: async () => {
      for (const { client, process: child } of started) {
        client.disconnect();
        if (child.exitCode !== null || child.signalCode !== null) continue;
        child.kill('SIGKILL');
        await once(child, 'exit');
      }
      await folder[Symbol.asyncDispose]();
    },
  };
}

export interface Deployment extends AsyncDisposable {
  readonly address: RedisAddress;
  readonly primary: RedisProcess;
  readonly replica: RedisProcess;
}

export interface SentinelDeployment extends Deployment {
  /** In the order in which the address names them. */
  readonly sentinels: readonly RedisProcess[];
}

export interface SentinelSettings {
  /** @defaultValue 1 */
  readonly replicas?: number;
  /** Of each server, beside the usual ones. */
  readonly settings?: readonly string[];
  readonly password?: string;
  readonly sentinelPassword?: string;
}

/** A primary, replicas in step with it, and three Sentinels that know each other. */
export async function startSentinels(options: SentinelSettings = {}): Promise<SentinelDeployment> {
  const processes = await redisProcesses();
  const { password, sentinelPassword, replicas: count = 1, settings = [] } = options;
  const access =
    password === undefined ? [] : [`requirepass ${password}`, `masterauth ${password}`];
  const own = [...settings, ...access];
  const primary = await processes.server(own);
  const follow = () => processes.server([...own, `replicaof ${HOST} ${primary.port}`]);
  const [replica, ...more] = await Promise.all(Array.from({ length: count }, follow));
  if (replica === undefined) throw new RangeError('without a replica there is no failover');
  const replicas = [replica, ...more];
  await inStep(primary, count);
  const sentinels = await processes.sentinels([
    `sentinel monitor ${MASTER} ${HOST} ${primary.port} 2`,
    ...replicas.map(({ port }) => `sentinel known-replica ${MASTER} ${HOST} ${port}`),
    `sentinel down-after-milliseconds ${MASTER} 500`,
    `sentinel failover-timeout ${MASTER} 5000`,
    ...(password === undefined ? [] : [`sentinel auth-pass ${MASTER} ${password}`]),
    ...(sentinelPassword === undefined ? [] : [`requirepass ${sentinelPassword}`]),
  ]);
  for (const { client } of sentinels) {
    await until(async () => {
      const facts = await client.call('SENTINEL', 'CKQUORUM', MASTER).catch(String);
      return String(facts).startsWith('OK 3 usable');
    });
  }
  const user = password === undefined ? '' : `:${password}@`;
  const query = sentinelPassword === undefined ? '' : `?sentinel_password=${sentinelPassword}`;
  const hosts = sentinels.map(({ port }) => `${HOST}:${port}`).join();
  return {
    address: { kind: 'url', url: `redis+sentinel://${user}${hosts}/${MASTER}${query}` },
    primary,
    replica,
    sentinels,
    [Symbol.asyncDispose]: () => processes[Symbol.asyncDispose](),
  };
}

const SLOTS = 16_384;

/** Three primaries, and a replica of the one that has Wavepool's keys. */
export async function startCluster(): Promise<Deployment> {
  const processes = await redisProcesses();
  const node = (name: string) =>
    processes.server([
      'cluster-enabled yes',
      `cluster-config-file ${name}.nodes`,
      'cluster-node-timeout 1000',
    ]);
  const primaries = [await node('a'), await node('b'), await node('c')];
  const replica = await node('replica');
  const [first] = primaries;
  if (first === undefined) throw new Error('there is a first node');
  for (const [index, { client }] of primaries.entries()) {
    const [from, to] = [index, index + 1].map((at) => Math.floor((at * SLOTS) / primaries.length));
    await client.cluster('ADDSLOTSRANGE', Number(from), Number(to) - 1);
  }
  for (const { client } of [...primaries.slice(1), replica])
    await client.cluster('MEET', HOST, first.port);
  const all = [...primaries, replica];
  for (const { client } of all) {
    await until(async () => {
      const info = await client.cluster('INFO');
      return info.includes('cluster_state:ok') && info.includes(`known_nodes:${all.length}`);
    });
  }
  const slot = await first.client.cluster('KEYSLOT', '{wavepool}');
  const primary = primaries[Math.floor((slot * primaries.length) / SLOTS)] ?? first;
  await replica.client.cluster('REPLICATE', await primary.client.cluster('MYID'));
  await inStep(primary);
  const others = primaries.filter((candidate) => candidate !== primary);
  const hosts = others.map(({ port }) => `${HOST}:${port}`).join();
  return {
    address: { kind: 'url', url: `redis+cluster://${hosts}` },
    primary,
    replica,
    [Symbol.asyncDispose]: () => processes[Symbol.asyncDispose](),
  };
}

/** The replicas have their copies, and confirm what comes after. The primary sends that only when it was asked to. */
async function inStep(primary: RedisProcess, replicas = 1): Promise<void> {
  await until(async () => {
    const info = await primary.client.info('replication');
    return (info.match(/state=online/g) ?? []).length === replicas;
  });
  await primary.client.set('{wavepool}-in-step', '1');
  await primary.client.wait(replicas, 0);
}

/** Servers tell nobody when they know each other: they are asked again and again. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await pause(20);
}

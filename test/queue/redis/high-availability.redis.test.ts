/** The queue on real Sentinels and a real Cluster, with whole workers over the fake families. */
import { once } from 'node:events';
import path from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import {
  checkRedis,
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
  toRedisError,
} from '../../../src/queue/redis/connection.ts';
import { Ledger } from '../../chaos/support/ledger.ts';
import { makeRecording } from '../../chaos/support/recordings.ts';
import { TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { FakeWorker } from '../../support/fake-worker.ts';
import { temporaryFolder } from '../../support/redis.ts';
import {
  type Deployment,
  redisProcesses,
  startCluster,
  startSentinels,
} from '../../support/redis-processes.ts';

vi.setConfig({ testTimeout: 90_000 });

const MODEL = 'fake';
const SECONDS = 1.024;
/** Before the primary is killed, and again while nobody has taken over yet. */
const JOBS = 40;

/** Two workers and a producer go on while the primary is killed. */
async function failOver({ address, primary, replica }: Deployment): Promise<void> {
  await using folder = await temporaryFolder();
  const options = {
    address,
    folder: folder.path,
    models: { [MODEL]: {} },
    settings: { lockDurationMs: 4_000, stalledIntervalMs: 1_000 },
  };
  await using _first = await FakeWorker.start(options);
  await using _second = await FakeWorker.start(options);
  await using queue = await AudioQueue.open({ address, model: MODEL, whenDisconnected: 'wait' });
  const recordings = Array.from({ length: 4 }, (_, seed) =>
    makeRecording(folder.path, SECONDS, seed + 1),
  );
  const ledger = new Ledger();
  const job = (name: string, at: number) => {
    const recording = recordings[at % recordings.length];
    if (recording === undefined) throw new Error('there are recordings');
    const id = `${name}-${at}`;
    ledger.expect(id, { text: recording.text });
    return { id, input: { kind: 'path', path: recording.path } } as const;
  };
  const jobs = (name: string) => Array.from({ length: JOBS }, (_, at) => job(name, at));

  let ended = 0;
  const busy = new Promise<void>((resolve) => {
    queue.on('completed', () => {
      ended += 1;
      if (ended === 3) resolve();
    });
  });
  const ids = await queue.addMany(jobs('before'));
  await busy;
  primary.process.kill('SIGKILL');
  await once(primary.process, 'exit');
  ids.push(...(await queue.addMany(jobs('after'))));
  await Promise.all(ids.map((id) => queue.waitFor(id)));

  const connection = await open(address, 'patient');
  const { port: peer } = new URL(
    `redis://${connection.stream.remoteAddress}:${connection.stream.remotePort}`,
  );
  expect(Number(peer)).toBe(replica.port);
  const resultsDir = path.join(folder.path, 'results');
  expect(await ledger.account({ queues: [queue], connection, resultsDir })).toEqual({
    jobs: 2 * JOBS,
    completed: 2 * JOBS,
    failed: 0,
    lost: 0,
    doubled: 0,
    findings: [],
  });
  connection.disconnect();
}

describe.skipIf(!TEST_ADDON_BUILT)(
  'when the primary is killed under load, nothing is lost or doubled',
  () => {
    test('with Sentinels, which ask for passwords as the servers do', async () => {
      await using deployment = await startSentinels({
        password: 'queue',
        sentinelPassword: 'watch',
      });
      await failOver(deployment);
    });

    test('with a Cluster', async () => {
      await using deployment = await startCluster();
      await failOver(deployment);
    });
  },
);

test('what a server may not do just now is waited for or refused, as the connection likes, and never lost', async () => {
  await using processes = await redisProcesses();
  const server = await processes.server();
  const address = { kind: 'url', url: `redis://127.0.0.1:${server.port}` } as const;
  const [patient, hasty, reader] = await Promise.all([
    open(address, 'patient'),
    open(address, 'fail-fast'),
    open(address, 'patient'),
  ]);
  const states = [
    // It is another one's replica, for so long.
    [() => server.client.replicaof('127.0.0.1', '1'), () => server.client.replicaof('NO', 'ONE')],
    // Too few replicas are in step with it.
    [
      () => server.client.config('SET', 'min-replicas-to-write', '1'),
      () => server.client.config('SET', 'min-replicas-to-write', '0'),
    ],
  ] as const;
  // Not `$`: what comes before a reader that had to ask again would pass it by.
  let last = '0';
  for (const [index, [begin, end]] of states.entries()) {
    const read = reader.xread('BLOCK', 0, 'STREAMS', 'stream', last);
    await patient.ping();
    await begin();
    const refused: unknown = await hasty.set('key', index).catch(toRedisError);
    expect(refused).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    const waiting = patient.incr('count');
    const reconnecting = once(patient, 'reconnecting');
    await reconnecting;
    await end();
    expect(await waiting).toBe(index + 1);
    last = (await patient.xadd('stream', '*', 'at', index)) ?? '';
    expect(await read).toMatchObject([['stream', [[expect.any(String), ['at', `${index}`]]]]]);
  }
  for (const connection of [patient, hasty, reader]) closeConnection(connection);
});

test('a server is told apart from a replica and from a node of a Cluster, and a Cluster from a server', async () => {
  await using processes = await redisProcesses();
  const server = await processes.server();
  const replica = await processes.server([`replicaof 127.0.0.1 ${server.port}`]);
  const node = await processes.server(['cluster-enabled yes']);
  const check = async (url: string) => {
    const connection = await open({ kind: 'url', url }, 'fail-fast');
    return checkRedis(connection).finally(() => closeConnection(connection));
  };
  await expect(check(`redis://127.0.0.1:${replica.port}`)).rejects.toMatchObject({
    code: 'REDIS_UNSUITABLE',
    message: expect.stringContaining('replica'),
  });
  await expect(check(`redis://127.0.0.1:${node.port}`)).rejects.toMatchObject({
    code: 'REDIS_UNSUITABLE',
    message: expect.stringContaining('redis+cluster://'),
  });
  await expect(check(`redis+cluster://127.0.0.1:${server.port}`)).rejects.toMatchObject({
    code: 'REDIS_UNAVAILABLE',
    message: expect.stringContaining('cluster support disabled'),
  });
  await expect(check(`redis+sentinel://127.0.0.1:${server.port}/queue`)).rejects.toMatchObject({
    code: 'REDIS_UNAVAILABLE',
  });
});

async function open(address: RedisAddress, role: 'patient' | 'fail-fast') {
  const connection = openConnection(address, { role, name: 'test' });
  await connect(connection, address);
  return connection;
}

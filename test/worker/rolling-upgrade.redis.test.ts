/** Workers of two versions on one queue. The newer one is this one: it is the jobs whose version is raised. */
import { Queue } from 'bullmq';
import { describe, expect, test, vi } from 'vitest';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { bullKey, queuePrefix } from '../../src/queue/redis/queue-names.ts';
import { makeRecording } from '../chaos/support/recordings.ts';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { FakeWorker } from '../support/fake-worker.ts';
import { startRedis } from '../support/redis.ts';
import { startWorker } from '../support/worker.ts';

vi.setConfig({ testTimeout: 60_000 });

const MODEL = 'fake';

describe.skipIf(!TEST_ADDON_BUILT)('during a rolling upgrade', () => {
  test('a worker leaves newer jobs to newer workers, and refuses what it does not know of its own version', async () => {
    await using redis = await startRedis();
    await using queue = await AudioQueue.open({ address: redis.address, model: MODEL });
    const connection = await redis.connection();
    const { path } = makeRecording(redis.dataDir, 1.024, 1);
    /** As another version of the producer would write it. */
    const add = async (id: string, members: object) => {
      await queue.add({ id, input: { kind: 'path', path }, delayMs: 60_000 });
      const key = bullKey(connection, queue.name, id);
      const data = JSON.parse((await connection.hget(key, 'data')) ?? '');
      await connection.hset(key, 'data', JSON.stringify({ ...data, ...members }));
    };
    await add('newer', { schemaVersion: 2, voiceprint: 'low' });
    await add('unknown', { voiceprint: 'low' });
    await add('ours', {});
    const bull = new Queue(queue.name, { connection, prefix: queuePrefix(connection) });
    {
      await using _ = await FakeWorker.start({
        address: redis.address,
        folder: redis.dataDir,
        models: { [MODEL]: {} },
      });
      await bull.promoteJobs();
      await expect(queue.waitFor('unknown')).rejects.toMatchObject({
        code: 'INVALID_REQUEST',
        message: expect.stringContaining('voiceprint'),
      });
      await queue.waitFor('ours');
      await vi.waitFor(async () => expect((await queue.get('newer'))?.state).toBe('delayed'));
    }
    // A reader of the older version shows what it understands, and changes nothing.
    expect(await queue.get('newer')).toMatchObject({ attemptsMade: 0, data: { model: MODEL } });

    const seen: unknown[] = [];
    await using _ = startWorker(redis.address, MODEL, (job) => seen.push(job.data));
    await bull.promoteJobs();
    await queue.waitFor('newer');
    expect(seen).toMatchObject([{ schemaVersion: 2, voiceprint: 'low' }]);
    await bull.close();
  });
});

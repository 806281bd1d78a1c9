/** A producer as users write it: it adds a job, closes what it opened, and has nothing left to do. */
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { CancellationListener } from '../../src/queue/jobs/cancellation.ts';
import { EmbeddedRedis } from '../../src/queue/redis/embedded-redis.ts';
import { redisOptions } from '../support/redis.ts';

const [, , dataDir = ''] = process.argv;
const redis = await EmbeddedRedis.acquire(redisOptions(dataDir));
const queue = await AudioQueue.open({ address: redis.address, model: 'm' });
const listener = await CancellationListener.open({ address: redis.address, queue: 'm' });
await queue.add({ input: { kind: 'path', path: '/a.wav' } });
listener.close();
await queue.close();
await redis.release();

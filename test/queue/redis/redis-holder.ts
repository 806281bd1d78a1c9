/** A process that holds and releases a private Redis as its parent says. */
import { connect, openConnection } from '../../../src/queue/redis/connection.ts';
import { EmbeddedRedis } from '../../../src/queue/redis/embedded-redis.ts';
import { redisOptions } from '../../support/redis.ts';

export type HolderRequest =
  | { readonly type: 'acquire'; readonly dataDir: string }
  | { readonly type: 'release' };

export type HolderReply =
  | { readonly type: 'acquired'; readonly serverPid: number; readonly count: number }
  | { readonly type: 'released'; readonly stopped: boolean }
  | { readonly type: 'error'; readonly message: string };

let held: EmbeddedRedis | undefined;

async function answer(request: HolderRequest): Promise<HolderReply> {
  if (request.type === 'release') {
    const stopped = (await held?.release()) ?? false;
    return { type: 'released', stopped };
  }
  held = await EmbeddedRedis.acquire(redisOptions(request.dataDir));
  const connection = openConnection(held.address, { role: 'patient', name: 'counter' });
  await connect(connection, held.address);
  const count = await connection.incr('count');
  await connection.quit();
  return { type: 'acquired', serverPid: held.serverPid, count };
}

process.on('message', (request: HolderRequest) => {
  answer(request)
    .catch((error: unknown): HolderReply => ({ type: 'error', message: String(error) }))
    .then(
      (reply) => process.send?.(reply),
      () => process.exit(1),
    );
});
process.on('disconnect', () => process.exit(0));

/** One connection to the queue's Redis, for commands that read or write a few keys. */
import { closeConnection, connect, openConnection } from '../queue/redis/connection.ts';
import type { CliContext } from './context.ts';
import { type PlaceOptions, placesOf } from './options/options.ts';
import { RedisAccess } from './redis-access.ts';

export async function withConnection<Result>(
  options: PlaceOptions,
  context: CliContext,
  use: (connection: ReturnType<typeof openConnection>) => Promise<Result>,
): Promise<Result> {
  await using redis = await RedisAccess.open(placesOf(context.config, options));
  const connection = openConnection(redis.address, { role: 'fail-fast', name: 'command' });
  await connect(connection, redis.address);
  try {
    return await use(connection);
  } finally {
    closeConnection(connection);
  }
}

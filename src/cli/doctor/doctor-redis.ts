/** Whether the Redis that jobs are kept in is there, and what of them it keeps. */
import type { Config } from '../../core/config.ts';
import { toWavepoolError } from '../../core/errors.ts';
import { type Persistence, readPersistence } from '../../queue/redis/persistence.ts';
import { findRedisServer } from '../../queue/redis/redis-binary.ts';
import type { Check } from './doctor-checks.ts';

const name = 'redis';
const ALWAYS = 'redis-cli CONFIG SET appendfsync always, and the same in its configuration file';

/** @param installFix the command that installs a server program */
export async function checkRedis(config: Config, installFix: string): Promise<Check> {
  const { redisUrl } = config;
  try {
    if (redisUrl !== undefined) return judge(await readPersistence(redisUrl));
    const { path: program, version } = await findRedisServer(config);
    return { name, state: 'ok', detail: `${program} ${version}` };
  } catch (error) {
    const detail = toWavepoolError(error).message;
    const fix = redisUrl === undefined ? installFix : 'start that server, or correct --redis';
    return { name, state: 'missing', detail, fix };
  }
}

function judge({ version, appendOnly, fsync }: Persistence): Check {
  const warn = (detail: string, fix: string): Check => {
    return { name, state: 'warning', detail: `an existing server, ${version}: ${detail}`, fix };
  };
  if (appendOnly === false) {
    const fix = 'redis-cli CONFIG SET appendonly yes, and the same in its configuration file';
    return warn('no append-only file, so a restart forgets jobs', fix);
  }
  switch (fsync) {
    case 'everysec': {
      const when = 'a power cut, or a kill -9 while the disk is busy';
      return warn(`appendfsync everysec, so ${when}, loses up to 2 s of confirmed work`, ALWAYS);
    }
    case 'no':
      return warn('appendfsync no, so a power cut loses what the kernel had not written', ALWAYS);
    case undefined: {
      const detail = `an existing server, ${version}, that does not tell what it keeps`;
      return { name, state: 'ok', detail };
    }
    default:
      return { name, state: 'ok', detail: `an existing server, ${version}, appendfsync ${fsync}` };
  }
}

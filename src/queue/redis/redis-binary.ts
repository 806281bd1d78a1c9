/** Finds a server program that the private Redis can be started from. */
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Config } from '../../core/config.ts';
import { WavepoolError } from '../../core/errors.ts';

const run = promisify(execFile);

const PROGRAMS = ['redis-server', 'valkey-server'];

export interface RedisBinary {
  readonly path: string;
  readonly version: string;
}

async function isProgram(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** Undefined when the program does not say a version. */
async function versionOf(path: string): Promise<string | undefined> {
  const answer = await run(path, ['--version'], { timeout: 10_000 }).catch(() => undefined);
  return /\bv=(\d+\.\d+\.\d+)/.exec(answer?.stdout ?? '')?.[1];
}

function isRecent(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 6 || (major === 6 && minor >= 2);
}

function howToInstall(): string {
  return process.platform === 'darwin'
    ? 'install it with `brew install redis`'
    : 'install it with `sudo apt-get install redis-server`, or name another Redis with --redis';
}

/**
 * The first redis-server or valkey-server ≥ 6.2.
 * @throws {WavepoolError} REDIS_MISSING with the command that installs one
 */
export async function findRedisServer(
  config: Pick<Config, 'redisServer' | 'searchPath'>,
): Promise<RedisBinary> {
  const candidates =
    config.redisServer === undefined
      ? PROGRAMS.flatMap((program) => config.searchPath.map((folder) => join(folder, program)))
      : [config.redisServer];
  const unfit: string[] = [];
  for (const path of candidates) {
    if (!(await isProgram(path))) continue;
    const version = await versionOf(path);
    if (version !== undefined && isRecent(version)) return { path, version };
    unfit.push(`${path} is ${version ?? 'no such server'}, 6.2 or newer is needed`);
  }
  throw new WavepoolError('REDIS_MISSING', [...unfit, howToInstall()].join('; '));
}

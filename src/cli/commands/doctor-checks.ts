/** What this machine needs to run Wavepool: each thing found or not, and the command that brings it. */
import { execFile } from 'node:child_process';
import { constants, existsSync } from 'node:fs';
import { access, readFile, statfs } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Config } from '../../core/config.ts';
import { toWavepoolError } from '../../core/errors.ts';
import { missingCpuFeatures } from '../../engine/binding.ts';
import { type Persistence, readPersistence } from '../../queue/redis/persistence.ts';
import { findRedisServer } from '../../queue/redis/redis-binary.ts';
import { formatBytes } from '../terminal/text.ts';

const run = promisify(execFile);

const OLDEST_NODE = [20, 19] as const;
const OLDEST_CMAKE = [3, 21] as const;
const LOW_DISK_BYTES = 1024 ** 3;
const LOW_MEMORY_BYTES = 1024 ** 3;
const FSYNC_ALWAYS =
  'redis-cli CONFIG SET appendfsync always, and the same in its configuration file';

export interface Check {
  readonly name: string;
  /** `warning`: worth knowing, nothing fails for it now. */
  readonly state: 'ok' | 'warning' | 'missing';
  readonly detail: string;
  /** A command, or what to do. */
  readonly fix?: string;
}

export interface DoctorProbes {
  readonly config: Config;
  /** Loads the addon; its build identity. */
  loadAddon(): Promise<string>;
  /** Ids of the models that a plain `run` needs and that are not installed. */
  missingModels(): Promise<readonly string[]>;
}

export async function checkMachine(probes: DoctorProbes): Promise<Check[]> {
  const { config } = probes;
  const addon = await checkAddon(probes);
  /** Whoever has the addon needs nothing to build it with. */
  const toBuild = (check: Check): Check =>
    check.state === 'missing' && addon.state === 'ok' ? { ...check, state: 'warning' } : check;
  return Promise.all([
    Promise.resolve(checkNode(process.versions.node)),
    Promise.resolve(addon),
    checkProgram('compiler', ['c++', 'g++', 'clang++'], config, {
      ...install('build-essential', undefined),
      needed: 'to build the addon',
    }).then(toBuild),
    checkProgram('cmake', ['cmake'], config, {
      ...install('cmake', 'cmake'),
      needed: 'to build the addon',
      oldest: OLDEST_CMAKE,
    }).then(toBuild),
    Promise.resolve(toBuild(checkJsonHeader())),
    checkCpu(),
    checkRedis(config, install('redis-server', 'redis').fix),
    checkProgram('ffmpeg', ['ffmpeg'], config, {
      ...install('ffmpeg', 'ffmpeg'),
      needed: 'for every format but WAV, MP3 and FLAC',
    }),
    checkModels(probes),
    checkFolder(config.dataDir),
    checkDisk(config.dataDir),
    Promise.resolve(checkMemory()),
  ]);
}

function checkNode(version: string): Check {
  const fits = isAtLeast(version, OLDEST_NODE);
  if (fits) return { name: 'node', state: 'ok', detail: version };
  const fix = `install Node.js ${OLDEST_NODE.join('.')} or newer from https://nodejs.org`;
  return { name: 'node', state: 'missing', detail: `${version} is too old`, fix };
}

async function checkAddon(probes: DoctorProbes): Promise<Check> {
  try {
    return { name: 'addon', state: 'ok', detail: `build ${await probes.loadAddon()}` };
  } catch (error) {
    const { message } = toWavepoolError(error);
    return { name: 'addon', state: 'missing', detail: message, fix: 'wavepool doctor --build' };
  }
}

interface ProgramNeed {
  readonly fix: string;
  readonly needed: string;
  readonly oldest?: readonly [number, number];
}

async function checkProgram(
  name: string,
  programs: readonly string[],
  config: Config,
  need: ProgramNeed,
): Promise<Check> {
  for (const program of programs) {
    const version = await versionOf(program, config);
    if (version === undefined) continue;
    if (need.oldest === undefined || isAtLeast(version, need.oldest))
      return { name, state: 'ok', detail: `${program} ${version}` };
    const detail = `${program} ${version} is older than ${need.oldest.join('.')}`;
    return { name, state: 'missing', detail, fix: need.fix };
  }
  return { name, state: 'missing', detail: `not found; needed ${need.needed}`, fix: need.fix };
}

/** Where systems keep the header of the JSON library that the addon is compiled with. */
const JSON_HEADERS = ['/usr/include', '/usr/local/include', '/opt/homebrew/include'].map(
  (folder) => `${folder}/nlohmann/json.hpp`,
);

function checkJsonHeader(): Check {
  const name = 'nlohmann json';
  const header = JSON_HEADERS.find((file) => existsSync(file));
  if (header !== undefined) return { name, state: 'ok', detail: header };
  const detail = 'not found; needed to build the addon';
  return { name, state: 'missing', detail, ...install('nlohmann-json3-dev', 'nlohmann-json') };
}

async function checkCpu(): Promise<Check> {
  const name = 'cpu';
  if (process.arch !== 'x64') return { name, state: 'ok', detail: process.arch };
  const lacking = missingCpuFeatures(await readFile('/proc/cpuinfo', 'utf8').catch(() => ''));
  if (lacking.length === 0) return { name, state: 'ok', detail: 'x64' };
  const fix = 'use a machine with an x86-64-v3 processor (2013 or newer)';
  return { name, state: 'missing', detail: `x64 without ${lacking.join(', ')}`, fix };
}

/**
 * Whether the Redis that jobs are kept in is there, and what of them it keeps.
 * @param installFix the command that installs a server program
 */
async function checkRedis(config: Config, installFix: string): Promise<Check> {
  const name = 'redis';
  const { redisUrl } = config;
  try {
    if (redisUrl !== undefined) return checkPersistence(await readPersistence(redisUrl));
    const { path: program, version } = await findRedisServer(config);
    return { name, state: 'ok', detail: `${program} ${version}` };
  } catch (error) {
    const detail = toWavepoolError(error).message;
    const fix = redisUrl === undefined ? installFix : 'start that server, or correct --redis';
    return { name, state: 'missing', detail, fix };
  }
}

function checkPersistence({ version, appendOnly, fsync }: Persistence): Check {
  const name = 'redis';
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
      return warn(
        `appendfsync everysec, so ${when}, loses up to 2 s of confirmed work`,
        FSYNC_ALWAYS,
      );
    }
    case 'no':
      return warn(
        'appendfsync no, so a power cut loses what the kernel had not written',
        FSYNC_ALWAYS,
      );
    case undefined: {
      const detail = `an existing server, ${version}, that does not tell what it keeps`;
      return { name, state: 'ok', detail };
    }
    default:
      return { name, state: 'ok', detail: `an existing server, ${version}, appendfsync ${fsync}` };
  }
}

async function checkModels(probes: DoctorProbes): Promise<Check> {
  const name = 'models';
  const missing = await probes.missingModels();
  if (missing.length === 0)
    return { name, state: 'ok', detail: `installed in ${probes.config.modelsDir}` };
  const detail = `${missing.join(', ')} not installed; the first run downloads what it needs`;
  return { name, state: 'warning', detail, fix: `wavepool models pull ${missing.join(' ')}` };
}

async function checkFolder(folder: string): Promise<Check> {
  const name = 'data directory';
  const existing = await nearestExisting(folder);
  try {
    await access(existing, constants.W_OK | constants.X_OK);
    return { name, state: 'ok', detail: folder };
  } catch {
    const fix = `make ${existing} writable, or choose another --data-dir`;
    return { name, state: 'missing', detail: `${existing} is not writable`, fix };
  }
}

async function checkDisk(folder: string): Promise<Check> {
  const { bavail, bsize } = await statfs(await nearestExisting(folder));
  const bytes = bavail * bsize;
  const name = 'disk';
  const detail = `${formatBytes(bytes)} free for ${folder}`;
  if (bytes >= LOW_DISK_BYTES) return { name, state: 'ok', detail };
  return { name, state: 'warning', detail, fix: 'make room, or choose another --data-dir' };
}

function checkMemory(): Check {
  const bytes = process.availableMemory();
  const name = 'memory';
  const detail = `${formatBytes(bytes)} available`;
  if (bytes >= LOW_MEMORY_BYTES) return { name, state: 'ok', detail };
  return { name, state: 'warning', detail, fix: 'use one slot and a small --batch' };
}

/** The first number like 1.2 or 1.2.3 that the program prints about itself. */
async function versionOf(program: string, { searchPath }: Config): Promise<string | undefined> {
  // ffmpeg knows only the form with one dash.
  const flag = program === 'ffmpeg' ? '-version' : '--version';
  for (const folder of searchPath) {
    const answer = await run(path.join(folder, program), [flag], { timeout: 10_000 }).catch(
      () => undefined,
    );
    if (answer !== undefined) return /\d+(\.\d+)+/.exec(answer.stdout)?.[0] ?? 'of unknown version';
  }
  return undefined;
}

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [foundMajor = 0, foundMinor = 0] = version.split('.').map(Number);
  return foundMajor > major || (foundMajor === major && foundMinor >= minor);
}

async function nearestExisting(folder: string): Promise<string> {
  for (let candidate = path.resolve(folder); ; candidate = path.dirname(candidate)) {
    const exists = await access(candidate).then(
      () => true,
      () => false,
    );
    if (exists || path.dirname(candidate) === candidate) return candidate;
  }
}

/** The command of this machine's package manager. */
function install(aptName: string, brewName: string | undefined): { fix: string } {
  if (process.platform === 'darwin')
    return { fix: brewName === undefined ? 'xcode-select --install' : `brew install ${brewName}` };
  const sudo = process.getuid?.() === 0 ? '' : 'sudo ';
  return { fix: `${sudo}apt-get install -y ${aptName}` };
}

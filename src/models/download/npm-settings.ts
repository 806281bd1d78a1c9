/**
 * The npm settings of this machine, for a registry client that reads none itself. npm is asked for everything that it
 * tells; what it withholds (tokens, URLs with passwords in them) is read from the same .npmrc files and environment.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Environment } from './download.ts';

/** Options as pacote and npm-registry-fetch name them. */
export type RegistryOptions = Readonly<Record<string, unknown>>;

const run = promisify(execFile);

/** The names of settings: first npm's, then the client's. Times are milliseconds on both sides. */
const CLIENT_NAMES: Readonly<Record<string, string>> = {
  registry: 'registry',
  proxy: 'proxy',
  'https-proxy': 'httpsProxy',
  ca: 'ca',
  cert: 'cert',
  key: 'key',
  'strict-ssl': 'strictSSL',
  'local-address': 'localAddress',
  maxsockets: 'maxSockets',
  'fetch-retries': 'fetchRetries',
  'fetch-timeout': 'timeout',
  offline: 'offline',
  'prefer-offline': 'preferOffline',
  'prefer-online': 'preferOnline',
  'replace-registry-host': 'replaceRegistryHost',
  'user-agent': 'userAgent',
};

/**
 * Waits between tries. npm's own (10 s, then 60 s) suit installs that nobody watches: offline, a pull would say nothing for
 * over a minute.
 */
const RETRY_WAITS = { fetchRetryMintimeout: 1_000, fetchRetryMaxtimeout: 5_000 };

/**
 * Registry, proxies, certificates, cache and credentials as `npm install` run in `directory` would use them. Without npm
 * on the PATH, its global .npmrc does not count.
 */
export async function npmSettings(
  environment: Environment,
  directory: string,
): Promise<RegistryOptions> {
  const told = await askNpm(environment, directory);
  const settings = new Map([...(await readSettings(told, environment, directory)), ...told]);
  const options = new Map<string, unknown>();
  for (const [name, value] of settings) {
    // Settings of one scope (`@scope:registry`) and of one registry (`//host/:_authToken`) keep their names.
    const clientName = /^(@|\/\/)/.test(name) ? name : CLIENT_NAMES[name];
    if (clientName !== undefined && value !== null && value !== '') options.set(clientName, value);
  }
  const cache = settings.get('cache');
  if (typeof cache === 'string') options.set('cache', path.join(cache, '_cacache'));
  const noProxy = [settings.get('noproxy') ?? ''].flat().join(',');
  if (noProxy !== '') options.set('noProxy', noProxy);
  const authorities = settings.get('cafile');
  if (typeof authorities === 'string' && !options.has('ca')) {
    options.set('ca', certificates(await readIfPresent(authorities)));
  }
  return { ...RETRY_WAITS, ...Object.fromEntries(options) };
}

async function askNpm(
  environment: Environment,
  directory: string,
): Promise<ReadonlyMap<string, unknown>> {
  try {
    const { stdout } = await run('npm', ['config', 'list', '--json'], {
      cwd: directory,
      env: environment,
      maxBuffer: 16 * 2 ** 20,
    });
    const parsed: unknown = JSON.parse(stdout);
    return new Map(Object.entries(parsed ?? {}));
  } catch {
    // npm is missing or broken: the settings that can be read without it are used.
    return new Map();
  }
}

/** Reads the .npmrc files and the environment. The strongest source is read last. */
async function readSettings(
  told: ReadonlyMap<string, unknown>,
  environment: Environment,
  directory: string,
): Promise<ReadonlyMap<string, unknown>> {
  const { HOME: home = '' } = environment;
  const userFile = told.get('userconfig') ?? path.join(home, '.npmrc');
  const found = new Map<string, unknown>();
  for (const file of [told.get('globalconfig'), userFile, projectFile(directory)]) {
    if (typeof file !== 'string') continue;
    for (const [name, value] of parse(await readIfPresent(file), environment)) {
      found.set(name, value);
    }
  }
  for (const [variable, value] of Object.entries(environment)) {
    const name = /^npm_config_(.+)$/i.exec(variable)?.[1];
    if (name === undefined || value === undefined) continue;
    const setting = name.startsWith('//') ? name : name.toLowerCase().replaceAll('_', '-');
    found.set(setting, typed(setting, value));
  }
  return found;
}

/** The `name = value` lines of an .npmrc, with `${VARIABLE}` and `${VARIABLE?}` filled in. */
function* parse(text: string, environment: Environment): Generator<[string, unknown]> {
  for (const line of text.split(/\r?\n/)) {
    const [, name, quoted] = /^\s*([^;#=\s][^=\s]*)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined || quoted === undefined) continue;
    const value = /^(["'])(.*)\1$/.exec(quoted)?.[2] ?? quoted;
    const filled = value.replace(
      /\$\{([^}?]+)(\?)?\}/g,
      (whole, variable: string, optional: string | undefined) =>
        environment[variable] ?? (optional === undefined ? whole : ''),
    );
    yield [name, typed(name, filled)];
  }
}

/** Credentials stay text, whatever they look like. */
function typed(name: string, value: string): unknown {
  if (name.startsWith('//')) return value;
  if (value === 'true' || value === 'false') return value === 'true';
  return /^\d+$/.test(value) ? Number(value) : value;
}

/** npm's project folder is the nearest one upwards with a package.json or node_modules. */
function projectFile(directory: string): string {
  for (let folder = path.resolve(directory); ; folder = path.dirname(folder)) {
    const isProject = ['package.json', 'node_modules'].some((name) =>
      existsSync(path.join(folder, name)),
    );
    if (isProject) return path.join(folder, '.npmrc');
    if (folder === path.dirname(folder)) return path.join(directory, '.npmrc');
  }
}

function certificates(text: string): string[] | undefined {
  return text.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? undefined;
}

async function readIfPresent(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    // As npm does: a settings file that cannot be read counts as empty.
    return '';
  }
}

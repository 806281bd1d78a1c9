/**
 * The npm settings of this machine, for a registry client that reads none itself: npm is asked for everything that it
 * tells, and credentials, which it never prints, are read from the .npmrc files that it names.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Options as pacote and npm-registry-fetch name them. */
export type RegistryOptions = Readonly<Record<string, unknown>>;

const run = promisify(execFile);

/** What npm calls a setting, and what the client calls it. Sizes of time are milliseconds on both sides. */
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
  'fetch-retry-factor': 'fetchRetryFactor',
  'fetch-retry-mintimeout': 'fetchRetryMintimeout',
  'fetch-retry-maxtimeout': 'fetchRetryMaxtimeout',
  'fetch-timeout': 'timeout',
  offline: 'offline',
  'prefer-offline': 'preferOffline',
  'prefer-online': 'preferOnline',
  'replace-registry-host': 'replaceRegistryHost',
  'user-agent': 'userAgent',
};

/**
 * Registry, proxies, certificates, cache and credentials as `npm install` run in `directory` would use them. Without npm
 * on the PATH: the registry and credentials of the environment and of the home directory's .npmrc.
 */
export async function npmSettings(
  environment: Environment,
  directory: string,
): Promise<RegistryOptions> {
  const npm = await askNpm(environment, directory);
  const options = new Map<string, unknown>();
  for (const [name, value] of Object.entries(npm)) {
    const clientName = name.startsWith('@') ? name : CLIENT_NAMES[name];
    if (clientName !== undefined && value !== null && value !== '') options.set(clientName, value);
  }
  const { cache, cafile, noproxy } = npm;
  if (typeof cache === 'string') options.set('cache', path.join(cache, '_cacache'));
  const noProxy = Array.isArray(noproxy) ? noproxy.join(',') : noproxy;
  if (typeof noProxy === 'string' && noProxy !== '') options.set('noProxy', noProxy);
  if (typeof cafile === 'string' && !options.has('ca')) {
    options.set('ca', certificates(await readIfPresent(cafile)));
  }
  return { ...Object.fromEntries(options), ...(await credentials(npm, environment, directory)) };
}

async function askNpm(
  environment: Environment,
  directory: string,
): Promise<Readonly<Record<string, unknown>>> {
  try {
    const { stdout } = await run('npm', ['config', 'list', '--json'], {
      cwd: directory,
      env: environment,
      maxBuffer: 16 * 2 ** 20,
    });
    const parsed: unknown = JSON.parse(stdout);
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {};
  } catch {
    // npm is missing or broken: what it would have read first is used without it.
    const { HOME: home, npm_config_registry: registry } = environment;
    return {
      registry: registry ?? null,
      userconfig: home === undefined ? null : path.join(home, '.npmrc'),
    };
  }
}

/** Settings of one registry (`//host/:_authToken` and its like), the strongest source last. */
async function credentials(
  npm: Readonly<Record<string, unknown>>,
  environment: Environment,
  directory: string,
): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const { globalconfig, userconfig } = npm;
  const files = [globalconfig, userconfig, projectFile(directory)];
  for (const file of files) {
    if (typeof file !== 'string') continue;
    Object.assign(found, parseCredentials(await readIfPresent(file), environment));
  }
  for (const [name, value] of Object.entries(environment)) {
    const setting = /^npm_config_(\/\/.+)$/i.exec(name)?.[1];
    if (setting !== undefined && value !== undefined) found[setting] = value;
  }
  return found;
}

function parseCredentials(text: string, environment: Environment): Record<string, string> {
  const found: Record<string, string> = {};
  for (const line of text.split(/\r?\n/)) {
    const [, name, quoted] = /^\s*(\/\/[^=\s]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined || quoted === undefined) continue;
    const value = /^(["'])(.*)\1$/.exec(quoted)?.[2] ?? quoted;
    found[name] = value.replace(/\$\{([^}?]+)(\?)?\}/g, (whole, variable: string, optional) => {
      return environment[variable] ?? (optional === undefined ? whole : '');
    });
  }
  return found;
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

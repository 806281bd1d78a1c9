/**
 * Where Redis is, as users write it: one server, servers under Sentinels, or a Cluster.
 *
 *   redis://[USER:PASSWORD@]HOST[:6379][/DB]            rediss:// with TLS, unix:///PATH for a socket
 *   redis+sentinel://[USER:PASSWORD@]HOST[:26379][,HOST…]/MASTER[?db=&sentinel_username=&sentinel_password=]
 *   redis+cluster://[USER:PASSWORD@]HOST[:6379][,HOST…]
 *
 * The last two are not what `URL` takes, which knows one host; `rediss+sentinel://` and `rediss+cluster://` have TLS.
 */
import { WavepoolError } from '../../core/errors.ts';

export interface RedisHost {
  readonly host: string;
  readonly port: number;
}

interface Credentials {
  readonly username?: string;
  readonly password?: string;
}

export type RedisTarget =
  | { readonly kind: 'server'; readonly url: string }
  | ({
      readonly kind: 'sentinel';
      readonly tls: boolean;
      readonly hosts: readonly RedisHost[];
      /** What the Sentinels call the servers. */
      readonly master: string;
      readonly db: number;
      /** For the Sentinels themselves; `username` and `password` are for the servers. */
      readonly sentinelUsername?: string;
      readonly sentinelPassword?: string;
    } & Credentials)
  | ({
      readonly kind: 'cluster';
      readonly tls: boolean;
      readonly hosts: readonly RedisHost[];
    } & Credentials);

const FORMS =
  'redis://, rediss://, unix://, redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT';

const SEVERAL_HOSTS =
  /^(?<scheme>rediss?)\+(?<kind>sentinel|cluster):\/\/(?:(?<user>[^@/?#]*)@)?(?<hosts>[^/?#@]+)(?:\/(?<path>[^?#]*))?(?:\?(?<query>[^#]*))?$/;
const HOST = /^(?:\[(?<v6>[0-9A-Fa-f:.]+)\]|(?<name>[A-Za-z0-9._-]+))(?::(?<port>\d{1,5}))?$/;

const REDIS_PORT = 6_379;
const SENTINEL_PORT = 26_379;
const SENTINEL_PARAMETERS = new Set(['db', 'sentinel_username', 'sentinel_password']);

/** @throws {WavepoolError} INVALID_REQUEST, which quotes no password */
export function parseRedisUrl(text: string): RedisTarget {
  const parts = SEVERAL_HOSTS.exec(text)?.groups;
  if (parts === undefined) {
    const protocol = URL.canParse(text) ? new URL(text).protocol : '';
    if (['redis:', 'rediss:', 'unix:'].includes(protocol)) return { kind: 'server', url: text };
    throw invalid(`it takes ${FORMS}`);
  }
  const { scheme, kind, user, hosts = '', path = '', query } = parts;
  const isSentinel = kind === 'sentinel';
  const common = {
    tls: scheme === 'rediss',
    hosts: hosts.split(',').map((host) => parseHost(host, isSentinel ? SENTINEL_PORT : REDIS_PORT)),
    ...parseCredentials(user),
  };
  const parameters = new URLSearchParams(query ?? '');
  if (isSentinel) return { kind: 'sentinel', ...common, ...parseSentinel(path, parameters) };
  if (path !== '' || query !== undefined)
    throw invalid('a Cluster has neither databases nor parameters');
  return { kind: 'cluster', ...common };
}

/** For messages: no password. */
export function describeRedisUrl(text: string): string {
  try {
    const target = parseRedisUrl(text);
    switch (target.kind) {
      case 'server': {
        const { protocol, host, pathname } = new URL(target.url);
        return `${protocol}//${host}${pathname}`;
      }
      case 'sentinel':
        return `${target.tls ? 'rediss' : 'redis'}+sentinel://${listHosts(target.hosts)}/${target.master}`;
      case 'cluster':
        return `${target.tls ? 'rediss' : 'redis'}+cluster://${listHosts(target.hosts)}`;
      default:
        return target satisfies never;
    }
  } catch {
    return 'an address that is no URL';
  }
}

function listHosts(hosts: readonly RedisHost[]): string {
  return hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join();
}

function parseHost(text: string, defaultPort: number): RedisHost {
  const { v6, name, port } = HOST.exec(text.trim())?.groups ?? {};
  const host = v6 ?? name;
  const number = port === undefined ? defaultPort : Number(port);
  if (host === undefined || number < 1 || number > 65_535)
    throw invalid(`${JSON.stringify(text)} is not HOST:PORT`);
  return { host, port: number };
}

function parseCredentials(user: string | undefined): Credentials {
  if (user === undefined || user === '') return {};
  const at = user.indexOf(':');
  const username = decode(at < 0 ? user : user.slice(0, at));
  const password = at < 0 ? '' : decode(user.slice(at + 1));
  return {
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
  };
}

function parseSentinel(path: string, parameters: URLSearchParams) {
  const master = decode(path);
  if (master === '' || master.includes('/'))
    throw invalid('Sentinels are asked for a master by its name: redis+sentinel://HOSTS/MASTER');
  for (const name of parameters.keys()) {
    if (!SENTINEL_PARAMETERS.has(name))
      throw invalid(`it has no parameter ${JSON.stringify(name)}`);
  }
  const db = parameters.get('db') ?? '0';
  if (!/^\d{1,5}$/.test(db)) throw invalid(`db is a number, not ${JSON.stringify(db)}`);
  const sentinelUsername = parameters.get('sentinel_username');
  const sentinelPassword = parameters.get('sentinel_password');
  return {
    master,
    db: Number(db),
    ...(sentinelUsername === null ? {} : { sentinelUsername }),
    ...(sentinelPassword === null ? {} : { sentinelPassword }),
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid('a "%" in it is not followed by two hexadecimal digits');
  }
}

function invalid(detail: string): WavepoolError {
  return new WavepoolError('INVALID_REQUEST', `the address of Redis: ${detail}`);
}

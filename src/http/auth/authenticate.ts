/**
 * Finds out who sends a request: the owner of an API key in a header, a page with a login in a cookie, or anybody while a
 * loopback server has no keys.
 *
 * Browsers send cookies, and requests to loopback, for any page that they show. So a request that changes something and has
 * no key in a header must come from a page of this server. Its origin shows that; with a login its token must, too.
 */
import { timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Request } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import type { ApiKeyRecord } from '../../core/http/api-key.ts';
import type { Services } from '../services.ts';
import { type Caller, NOBODY, OPEN } from './caller.ts';

/** The cookie with the login of a page. The server sets no other. */
export const SESSION_COOKIE = 'wavepool_session';

/** A page gets the token from `GET /v1/session` and sends it with each request that changes something. */
const CSRF_HEADER = 'x-csrf-token';

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Returns NOBODY for a request without a key and a login, which is enough for public routes.
 * @throws {WavepoolError} AUTH_REQUIRED for a key that is not valid, FORBIDDEN for a page of another site
 */
export async function authenticate(req: Request, services: Services): Promise<Caller> {
  const presented = presentedKey(req);
  if (presented !== undefined) return callerOfKey(presented, req, services);
  const session = await callerOfSession(req, services);
  if (session !== undefined) {
    assertOwnPage(req, services);
    assertToken(req, session);
    return session;
  }
  if (!(await isOpen(services))) return NOBODY;
  assertLocalName(req, services);
  assertOwnPage(req, services);
  return OPEN;
}

/**
 * Where the visitor of a page has to log in first; undefined for one who may read. A link on another site comes without the
 * cookie of a login. Such a visitor gets the page, too: it holds no data, and its script asks who is logged in.
 * @throws {WavepoolError} FORBIDDEN
 */
export async function loginAddress(req: Request, services: Services): Promise<string | undefined> {
  if (await mayRead(req, services)) return undefined;
  if (req.get('sec-fetch-site') === 'cross-site') return undefined;
  return `/login?next=${encodeURIComponent(req.originalUrl)}`;
}

async function mayRead(req: Request, services: Services): Promise<boolean> {
  try {
    const { scopes } = await authenticate(req, services);
    return scopes.includes('read');
  } catch (error) {
    if (error instanceof WavepoolError && error.code === 'AUTH_REQUIRED') return false;
    throw error;
  }
}

async function isOpen({ settings, keys }: Services): Promise<boolean> {
  return isLoopback(settings.host) && !(await keys.exist());
}

export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase();
  if (isIP(bare) === 4) return bare.startsWith('127.');
  return bare === '::1' || bare === 'localhost';
}

function presentedKey(req: Request): string | undefined {
  const { authorization } = req.headers;
  if (authorization !== undefined) return /^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? '';
  return req.get('x-api-key');
}

/** Some clients always send a key. A server without keys takes any. */
async function callerOfKey(presented: string, req: Request, services: Services): Promise<Caller> {
  const record = await services.keys.verify(presented);
  if (record !== undefined) return { kind: 'key', ...grantOf(record) };
  if (!(await isOpen(services))) throw new WavepoolError('AUTH_REQUIRED', 'the key is not valid');
  assertLocalName(req, services);
  return OPEN;
}

async function callerOfSession(
  req: Request,
  { sessions, keys }: Services,
): Promise<Caller | undefined> {
  const token = sessionTokenOf(req);
  const session = token === undefined ? undefined : await sessions.find(token);
  const record = session === undefined ? undefined : await keys.find(session.keyId);
  if (session === undefined || record === undefined) return undefined;
  return { kind: 'session', ...grantOf(record), csrfToken: session.csrfToken };
}

/** The content of the session cookie. */
export function sessionTokenOf(req: Request): string | undefined {
  for (const pair of (req.headers.cookie ?? '').split(';')) {
    const [key = '', value = ''] = pair.split('=', 2);
    if (key.trim() === SESSION_COOKIE && value !== '') return value.trim();
  }
  return undefined;
}

function grantOf({ id, scopes, tenant }: ApiKeyRecord): Omit<Caller, 'kind'> {
  return { id, scopes, tenant };
}

/** A page of another site could reach a loopback server under a name of its own that resolves to loopback. */
function assertLocalName(req: Request, { settings }: Services): void {
  const host = hostNameOf(req.get('host') ?? '');
  if (isLoopback(host) || settings.allowedHosts.includes(host)) return;
  throw new WavepoolError('FORBIDDEN', `this server has no API key and is not called ${host}`);
}

function hostNameOf(host: string): string {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : host;
}

/** @throws {WavepoolError} FORBIDDEN when a request that changes something comes from a page of another site */
export function assertOwnPage(req: Request, { settings }: Services): void {
  if (SAFE_METHODS.has(req.method)) return;
  const origin = req.get('origin');
  const site = req.get('sec-fetch-site');
  if (origin !== undefined && settings.allowedOrigins.includes(origin)) return;
  const sameHost =
    origin === undefined || (URL.canParse(origin) && new URL(origin).host === req.get('host'));
  const sameSite = site === undefined || site === 'same-origin' || site === 'none';
  if (sameHost && sameSite) return;
  throw new WavepoolError('FORBIDDEN', 'pages of other sites may not change anything');
}

function assertToken(req: Request, { csrfToken = '' }: Caller): void {
  if (SAFE_METHODS.has(req.method)) return;
  const sent = Buffer.from(req.get(CSRF_HEADER) ?? '');
  const expected = Buffer.from(csrfToken);
  if (sent.length === expected.length && timingSafeEqual(sent, expected)) return;
  throw new WavepoolError('FORBIDDEN', `the header ${CSRF_HEADER} must repeat the session's token`);
}

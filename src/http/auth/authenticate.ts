/**
 * Finds out who sends a request: an API key in a header, a page's login in a cookie, or anybody on an open loopback server.
 *
 * Browsers send cookies, and requests to loopback, on behalf of any page that they show. So whatever changes something and
 * comes without a key in a header must come from a page of this server: by its origin, and for a login by its token, too.
 */
import { timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Request } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import type { ApiKeyRecord } from '../../core/http/api-key.ts';
import type { Services } from '../services.ts';
import { type Caller, NOBODY, OPEN } from './caller.ts';
import { readCookie, SESSION_COOKIE } from './cookies.ts';

/** What a page repeats from `GET /v1/session` with each request that changes something. */
export const CSRF_HEADER = 'x-csrf-token';

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * NOBODY when the request carries nothing, which is enough for public routes.
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

/** Some clients always send a key; on an open server any is as good as none. */
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
  const token = readCookie(req, SESSION_COOKIE);
  const session = token === undefined ? undefined : await sessions.find(token);
  const record = session === undefined ? undefined : await keys.find(session.keyId);
  if (session === undefined || record === undefined) return undefined;
  return { kind: 'session', ...grantOf(record), csrfToken: session.csrfToken };
}

function grantOf({ id, scopes, tenant }: ApiKeyRecord): Omit<Caller, 'kind'> {
  return { id, scopes, tenant };
}

/** Another site's page could reach loopback under a name of its own that resolves to it. */
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

/** The logins of pages: an API key is exchanged for a cookie. */
import type { CookieOptions, Request, Response } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import { LoginRequest, SessionResource } from '../../core/http/api.ts';
import { assertOwnPage, SESSION_COOKIE, sessionTokenOf } from '../auth/authenticate.ts';
import type { Caller } from '../auth/caller.ts';
import { loginPage } from '../pages/dashboard-pages.ts';
import { route } from '../request/route.ts';
import type { Services } from '../services.ts';

const createSession = route({
  method: 'post',
  path: '/v1/session',
  name: 'createSession',
  tag: 'session',
  summary: 'Log a page in: the answer sets a cookie',
  description:
    'What a page changes with the cookie needs the header `X-CSRF-Token`, too, and must come from this server.',
  scope: 'public',
  body: LoginRequest,
  responses: { 201: { description: 'Logged in.', schema: SessionResource } },
  errors: ['AUTH_REQUIRED', 'FORBIDDEN'],
  handle: async ({ body, services, req, res }) => ({
    status: 201,
    json: await logIn(body.key, services, req, res),
  }),
});

const getSession = route({
  method: 'get',
  path: '/v1/session',
  name: 'getSession',
  tag: 'session',
  summary: 'Who asks, and what they may do',
  scope: 'read',
  forTenants: true,
  responses: { 200: { description: 'The caller.', schema: SessionResource } },
  handle: ({ caller }) => ({ status: 200, json: sessionResource(caller) }),
});

const deleteSession = route({
  method: 'delete',
  path: '/v1/session',
  name: 'deleteSession',
  tag: 'session',
  summary: 'Log a page out',
  scope: 'read',
  forTenants: true,
  responses: { 204: { description: 'Logged out.' } },
  handle: async ({ services, req, res }) => {
    const token = sessionTokenOf(req);
    if (token !== undefined) await services.sessions.close(token);
    res.clearCookie(SESSION_COOKIE, cookieOptions(req));
    return { status: 204 };
  },
});

const showLogin = route({
  method: 'get',
  path: '/login',
  name: 'getLoginPage',
  tag: 'pages',
  summary: 'The page that asks for an API key',
  scope: 'public',
  responses: { 200: { description: 'HTML.', type: 'text/html' } },
  handle: () => ({ status: 200, text: loginPage(), type: 'text/html' }),
});

export const sessionRoutes = [createSession, getSession, deleteSession, showLogin];

/** A page of another site must not log its visitor in as somebody else. */
async function logIn(
  key: string,
  services: Services,
  req: Request,
  res: Response,
): Promise<SessionResource> {
  assertOwnPage(req, services);
  const record = await services.keys.verify(key);
  if (record === undefined) throw new WavepoolError('AUTH_REQUIRED', 'the key is not valid');
  const { token, record: session } = await services.sessions.open(record.id);
  res.cookie(SESSION_COOKIE, token, cookieOptions(req));
  const { scopes, tenant = null } = record;
  return { kind: 'session', scopes, tenant, csrfToken: session.csrfToken };
}

/** With these options pages of other sites never send the cookie, and no script reads it. */
function cookieOptions({ secure }: Request): CookieOptions {
  return { httpOnly: true, sameSite: 'strict', secure, path: '/' };
}

function sessionResource({ kind, scopes, tenant, csrfToken }: Caller): SessionResource {
  if (kind === 'nobody') throw new TypeError('the route asks for a caller');
  return { kind, scopes: [...scopes], tenant: tenant ?? null, csrfToken: csrfToken ?? null };
}

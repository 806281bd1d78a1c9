import { request } from 'undici';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { SessionResource } from '../../../src/core/http/api.ts';
import type { ApiKeyScope } from '../../../src/core/http/api-key.ts';
import { ProblemDetails } from '../../../src/core/http/problem.ts';
import { ROUTES } from '../../../src/http/route-table.ts';
import { startTestServer, type TestServer } from '../../support/http.ts';

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(() => server[Symbol.asyncDispose]());

async function createKey(...scopes: ApiKeyScope[]): Promise<string> {
  const { key } = await server.services.keys.create('test', scopes);
  return key;
}

async function codeOf(response: Response): Promise<string> {
  return ProblemDetails.parse(await response.json()).code;
}

function bearer(key: string): { headers: Record<string, string> } {
  return { headers: { authorization: `Bearer ${key}` } };
}

/** A cookie and its token, as a page has them after it has logged in. */
async function logIn(key: string): Promise<{ cookie: string; token: string; setCookie: string }> {
  const response = await server.post('/v1/session', { key });
  expect(response.status).toBe(201);
  const { csrfToken } = SessionResource.parse(await response.json());
  const setCookie = response.headers.get('set-cookie') ?? '';
  return { cookie: setCookie.split(';')[0] ?? '', token: csrfToken ?? '', setCookie };
}

describe('without any key', () => {
  test('a loopback server is open, for clients that send some key, too', async () => {
    expect((await server.request('/v1/jobs')).status).toBe(200);
    expect((await server.request('/v1/jobs', bearer('sk-anything'))).status).toBe(200);
    const session = SessionResource.parse(await (await server.request('/v1/session')).json());
    expect(session).toEqual({
      kind: 'open',
      scopes: ['read', 'submit', 'manage'],
      tenant: null,
      csrfToken: null,
    });
  });

  test.each([
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ])('a page of another site changes nothing (%j)', async (headers) => {
    const response = await server.request('/v1/uploads', { method: 'POST', body: 'x', headers });
    expect(await codeOf(response)).toBe('FORBIDDEN');
  });

  test('a name of another site that leads here is refused', async () => {
    const { statusCode, body } = await request(`${server.url}/v1/jobs`, {
      headers: { host: 'rebound.example' },
    });
    expect(statusCode).toBe(403);
    await body.dump();
  });

  test('an address that others reach is not listened on', async () => {
    await expect(startTestServer({ settings: { host: '0.0.0.0' } })).rejects.toMatchObject({
      code: 'FORBIDDEN',
    });
  });
});

describe('with a key', () => {
  test('every route that is not public asks for it', async () => {
    await createKey('read');
    for (const { method, path, scope } of ROUTES) {
      const response = await server.request(path.replace(/:\w+/, 'x'), {
        method: method.toUpperCase(),
      });
      if (scope === 'public') expect(response.status).not.toBe(403);
      else {
        expect([path, response.status]).toEqual([path, 401]);
        expect(response.headers.get('www-authenticate')).toContain('Bearer');
        expect(await codeOf(response)).toBe('AUTH_REQUIRED');
      }
    }
  });

  test('it is taken as a bearer and as X-API-Key, and only with all of its characters', async () => {
    const key = await createKey('read');
    expect((await server.request('/v1/jobs', bearer(key))).status).toBe(200);
    expect((await server.request('/v1/jobs', { headers: { 'x-api-key': key } })).status).toBe(200);
    const wrong = [key.slice(0, -1), `${key}A`, key.replace(/.$/, '!'), 'wp_', ''];
    for (const presented of wrong) {
      const response = await server.request('/v1/jobs', bearer(presented));
      expect(response.status).toBe(401);
    }
  });

  test('a scope that is missing is named', async () => {
    const reader = await createKey('read');
    const response = await server.request('/v1/uploads', {
      method: 'POST',
      body: 'x',
      ...bearer(reader),
    });
    expect(response.status).toBe(403);
    expect(ProblemDetails.parse(await response.json()).detail).toContain('submit');
    const submitter = await createKey('submit');
    expect((await server.request('/v1/jobs', bearer(submitter))).status).toBe(403);
  });

  test('Redis holds no secret, and a revoked key is worth nothing at once', async () => {
    const key = await createKey('read');
    const redis = await server.redis.connection();
    const [stored = ''] = await redis.hvals('wavepool-api-keys');
    // The secret may itself hold the sign that the parts are told apart by.
    const secret = key.slice(-43);
    expect(stored).not.toContain(secret);
    const [record] = await server.services.keys.list();
    await createKey('read');
    expect(await server.services.keys.revoke(record?.id ?? '')).toBe(true);
    expect((await server.request('/v1/jobs', bearer(key))).status).toBe(401);
  });
});

describe('a login', () => {
  test('is a cookie that scripts and other sites do not get', async () => {
    const { setCookie } = await logIn(await createKey('read', 'submit'));
    expect(setCookie).toContain('HttpOnly');
    expect(setCookie).toContain('SameSite=Strict');
  });

  test('reads with the cookie, and changes something only with the token and from its own page', async () => {
    const { cookie, token } = await logIn(await createKey('read', 'submit'));
    expect((await server.request('/v1/jobs', { headers: { cookie } })).status).toBe(200);
    const upload = (headers: Record<string, string>): Promise<Response> =>
      server.request('/v1/uploads', {
        method: 'POST',
        body: 'x',
        headers: { cookie, ...headers },
      });
    expect((await upload({})).status).toBe(403);
    expect((await upload({ 'x-csrf-token': `${token}x` })).status).toBe(403);
    const foreign = { 'x-csrf-token': token, origin: 'https://evil.example' };
    expect((await upload(foreign)).status).toBe(403);
    expect((await upload({ 'x-csrf-token': token, origin: server.url })).status).toBe(201);
  });

  test('ends when it is closed, and with its key', async () => {
    const key = await createKey('read');
    const first = await logIn(key);
    const out = await server.request('/v1/session', {
      method: 'DELETE',
      headers: { cookie: first.cookie, 'x-csrf-token': first.token },
    });
    expect(out.status).toBe(204);
    const closed = await server.request('/v1/jobs', { headers: { cookie: first.cookie } });
    expect(closed.status).toBe(401);
    const second = await logIn(key);
    await createKey('read');
    await server.services.keys.revoke(key.split('_')[1] ?? '');
    const revoked = await server.request('/v1/jobs', { headers: { cookie: second.cookie } });
    expect(revoked.status).toBe(401);
  });

  test('is not given for a wrong key, nor to a page of another site', async () => {
    const key = await createKey('read');
    expect(await codeOf(await server.post('/v1/session', { key: 'wp_no' }))).toBe('AUTH_REQUIRED');
    const foreign = await server.post('/v1/session', { key }, { origin: 'https://evil.example' });
    expect(foreign.status).toBe(403);
  });
});

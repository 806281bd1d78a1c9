import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { UrlLimits } from '../../src/core/worker/worker-settings.ts';
import { isAllowed } from '../../src/storage/public-address.ts';
import { fetchInput } from '../../src/storage/url-input.ts';

interface Site extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  readonly requests: string[];
}

async function serve(answer: RequestListener): Promise<Site> {
  const requests: string[] = [];
  const server = createServer((req, res) => {
    requests.push(`${req.headers.host} ${req.url}`);
    answer(req, res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on a port.
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Loopback stands for the public internet, but for one of its addresses. */
function limits(changes: Partial<UrlLimits> = {}): UrlLimits {
  return UrlLimits.parse({ allowedNetworks: ['127.0.0.1/32'], ...changes });
}

async function leftovers(): Promise<string[]> {
  return (await readdir(tmpdir())).filter((name) =>
    name.startsWith(`wavepool-input-${process.pid}-`),
  );
}

test('a file is fetched, through redirects, and goes when it is disposed of', async () => {
  await using site = await serve((req, res) => {
    if (req.url === '/a') res.writeHead(302, { location: '/b?x=1' }).end();
    else res.end('audio');
  });
  const before = await leftovers();
  const fetched = await fetchInput(`${site.url}/a`, limits());
  expect(await readFile(fetched.path, 'utf8')).toBe('audio');
  await fetched[Symbol.asyncDispose]();
  expect(await leftovers()).toEqual(before);
});

describe('an address that is not public is refused', () => {
  test.each([
    'http://127.0.0.2/',
    'http://127.2/',
    'http://2130706434/',
    'http://0x7f000002/',
    'http://[::1]/',
    'http://[::ffff:127.0.0.2]/',
    'http://[::ffff:a00:1]/',
    'http://[fe80::1]/',
    'http://[fd00::1]/',
    'http://[64:ff9b::7f00:2]/',
    'http://0.0.0.0/',
    'http://10.0.0.1/',
    'http://172.16.0.1/',
    'http://192.168.1.1/',
    'http://100.64.0.1/',
    'http://169.254.169.254/latest/meta-data/',
    'http://user:secret@127.0.0.1/',
    'ftp://127.0.0.1/',
  ])('%s', async (url) => {
    await expect(fetchInput(url, limits())).rejects.toMatchObject({ code: 'INPUT_FORBIDDEN' });
  });

  test.each([
    'http://127.0.0.2:1/',
    'http://169.254.169.254/latest/meta-data/',
    'http://[::1]:1/',
    'file:///etc/passwd',
    'http://inner.example/',
  ])('behind a redirect to %s', async (target) => {
    await using site = await serve((_req, res) => {
      res.writeHead(307, { location: target }).end();
    });
    const resolve = () => Promise.resolve(['10.1.2.3']);
    await expect(fetchInput(site.url, limits(), undefined, { resolve })).rejects.toMatchObject({
      code: 'INPUT_FORBIDDEN',
    });
  });

  test('as one of the addresses of a name', async () => {
    const resolve = () => Promise.resolve(['127.0.0.1', '10.0.0.1']);
    await expect(
      fetchInput('http://mixed.example/', limits(), undefined, { resolve }),
    ).rejects.toMatchObject({ code: 'INPUT_FORBIDDEN' });
  });

  test('and public ones are not', () => {
    expect(isAllowed('93.184.216.34', [])).toBe(true);
    expect(isAllowed('2606:2800:220:1::1', [])).toBe(true);
    expect(isAllowed('127.0.0.1', ['127.0.0.0/8'])).toBe(true);
    expect(isAllowed('no address', ['0.0.0.0/0'])).toBe(false);
  });
});

test('the connection goes to the address that was checked, whatever the name becomes', async () => {
  await using site = await serve((_req, res) => {
    res.end('audio');
  });
  const answers = [['127.0.0.1'], ['10.0.0.1']];
  const resolve = () => Promise.resolve(answers.shift() ?? []);
  const url = `http://rebinding.example:${site.port}/`;
  await using _ = await fetchInput(url, limits(), undefined, { resolve });
  expect(site.requests).toEqual([`rebinding.example:${site.port} /`]);
  expect(answers).toHaveLength(1);
});

test.each([
  [404, 'INPUT_NOT_FOUND'],
  [403, 'INPUT_NOT_FOUND'],
  [500, 'INPUT_FETCH_FAILED'],
  [429, 'INPUT_FETCH_FAILED'],
])('status %d is %s', async (status, code) => {
  await using site = await serve((_req, res) => {
    res.writeHead(status).end();
  });
  await expect(fetchInput(site.url, limits())).rejects.toMatchObject({ code });
});

test('too many redirects, too many bytes and too long a wait end the fetch, and nothing stays', async () => {
  await using site = await serve((req, res) => {
    if (req.url === '/round') res.writeHead(302, { location: '/round' }).end();
    else if (req.url === '/declared')
      res.writeHead(200, { 'content-length': 11 }).end('01234567890');
    else if (req.url === '/streamed') for (const part of ['01234567890', '1']) res.write(part);
    else res.write('0');
  });
  const before = await leftovers();
  const small = limits({ maxBytes: 10, maxRedirects: 3, timeoutMs: 300 });
  const codeOf = (path: string): Promise<unknown> =>
    fetchInput(site.url + path, small).catch((error: unknown) => error);
  expect(await codeOf('/round')).toMatchObject({ code: 'INPUT_FETCH_FAILED' });
  expect(site.requests).toHaveLength(4);
  expect(await codeOf('/declared')).toMatchObject({ code: 'INPUT_TOO_LARGE' });
  expect(await codeOf('/streamed')).toMatchObject({ code: 'INPUT_TOO_LARGE' });
  expect(await codeOf('/never-ends')).toMatchObject({ code: 'INPUT_FETCH_FAILED' });
  expect(await leftovers()).toEqual(before);
});

test('a job that is cancelled ends its fetch with its own reason', async () => {
  const cancel = new AbortController();
  const reason = new Error('cancelled');
  await using site = await serve((_req, res) => {
    res.write('0');
    cancel.abort(reason);
  });
  await expect(fetchInput(site.url, limits(), cancel.signal)).rejects.toBe(reason);
});

test('a server that is not there may be there later', async () => {
  const site = await serve(() => undefined);
  await site[Symbol.asyncDispose]();
  await expect(fetchInput(site.url, limits())).rejects.toMatchObject({
    code: 'INPUT_FETCH_FAILED',
    retryable: true,
  });
});

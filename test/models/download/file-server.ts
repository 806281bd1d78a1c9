/** A server of files on a local port that behaves as Hugging Face does: redirects to a store, ranges, strong ETags. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';

export interface FileServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: { readonly path: string; readonly headers: IncomingMessage['headers'] }[];
  /** Puts a file under a path, or replaces it. */
  put(path: string, bytes: Uint8Array): void;
  redirect(path: string, to: string): void;
  /** Cuts the connection of the next answers to this path after so many bytes, once `told` says that they have arrived. */
  cutAfter(path: string, ...bytes: number[]): void;
  /** For a client's `onBytes`. */
  told(received: number): void;
  /** Every later answer for this path is this status. */
  failWith(path: string, status: number): void;
  /** Neither ETags nor dates from now on. */
  forgetValidators(): void;
}

export function fixture(name: string): Promise<string> {
  return readFile(new URL(`../fixtures/${name}`, import.meta.url), 'utf8');
}

export async function startFileServer(options: { readonly tls?: true } = {}): Promise<FileServer> {
  const files = new Map<string, Uint8Array>();
  const redirects = new Map<string, string>();
  const cuts = new Map<string, number[]>();
  const failures = new Map<string, number>();
  const requests: { path: string; headers: IncomingMessage['headers'] }[] = [];
  const held: { response: ServerResponse; until: number }[] = [];
  let validators = true;

  const answer = (request: IncomingMessage, response: ServerResponse) => {
    const path = (request.url ?? '').replace(/\?.*/, '');
    requests.push({ path, headers: request.headers });
    const status = failures.get(path);
    const location = redirects.get(path);
    const bytes = files.get(path);
    if (status !== undefined) return response.writeHead(status).end();
    if (location !== undefined) return response.writeHead(302, { location }).end();
    if (bytes === undefined) return response.writeHead(404).end('not here');
    const etag = `"${createHash('sha256').update(bytes).digest('hex')}"`;
    if (validators) response.setHeader('etag', etag);
    if (path.endsWith('/')) response.setHeader('content-type', 'text/html');
    const { range, 'if-range': condition } = request.headers;
    const asked = /^bytes=(\d+)-$/.exec(range ?? '')?.[1];
    const isPart = asked !== undefined && condition === etag;
    const start = isPart ? Number(asked) : 0;
    if (start >= bytes.length && isPart) return response.writeHead(416).end();
    const body = bytes.subarray(start);
    const contentRange = { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` };
    response.writeHead(isPart ? 206 : 200, {
      'content-length': body.length,
      ...(isPart ? contentRange : {}),
    });
    const cut = cuts.get(path)?.shift();
    if (cut === undefined) return response.end(body);
    if (cut === 0) {
      response.flushHeaders();
      return setImmediate(() => response.destroy());
    }
    held.push({ response, until: start + cut });
    return response.write(body.subarray(0, cut));
  };

  const server =
    options.tls === undefined
      ? createServer(answer)
      : createHttpsServer(
          { key: await fixture('localhost.key'), cert: await fixture('localhost.crt') },
          answer,
        );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    url: `http${options.tls ? 's' : ''}://127.0.0.1:${address.port}`,
    requests,
    put: (path, bytes) => files.set(path, bytes),
    redirect: (path, to) => redirects.set(path, to),
    cutAfter: (path, ...bytes) => cuts.set(path, bytes),
    told: (received) => {
      for (const { response, until } of held) if (received >= until) response.destroy();
    },
    failWith: (path, status) => failures.set(path, status),
    forgetValidators: () => {
      validators = false;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

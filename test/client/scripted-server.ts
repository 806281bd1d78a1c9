/** A server that answers each request with the next line of a script. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { ClientClock } from '../../src/client/transport.ts';
import { WavepoolClient, type WavepoolClientOptions } from '../../src/client/wavepool-client.ts';

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** What the server does with a request, once its body has been read unless `early`. */
export type Answer = (res: ServerResponse, req: IncomingMessage) => void;

export interface ScriptedServer extends AsyncDisposable {
  readonly url: string;
  readonly seen: SeenRequest[];
  /** Pauses that the client has made. */
  readonly pauses: number[];
  /** The limit that runs, or else the next one, is over. */
  expire(): void;
  client(options?: Partial<WavepoolClientOptions>): WavepoolClient;
}

/**
 * Time passes at once when the client pauses between requests. A limit of the length in `expiring` passes when a request of
 * the script is left without an answer, or when a test says so; the others never do.
 */
export async function scriptedServer(
  script: readonly Answer[],
  expiring?: number,
): Promise<ScriptedServer> {
  const seen: SeenRequest[] = [];
  const pauses: number[] = [];
  const answers = [...script];
  let pending: (() => void) | undefined;
  let mayExpire = false;
  const expire = (): void => {
    if (pending === undefined) mayExpire = true;
    else pending();
  };
  const limit = (signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve, reject) => {
      pending = resolve;
      if (mayExpire) resolve();
      mayExpire = false;
      signal?.addEventListener('abort', () => {
        pending = undefined;
        reject(new Error('the limit was taken back'));
      });
    });
  const server = createServer((req, res) => {
    const answer = answers.shift() ?? unexpected;
    const { method = '', url = '', headers } = req;
    // A body that breaks off is part of some scripts.
    void text(req).then(
      (body) => {
        seen.push({ method, url, headers, body });
        if (answer === silence) expire();
        answer(res, req);
      },
      () => undefined,
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on a port.
  const url = `http://127.0.0.1:${port}`;
  let now = 0;
  const clock: ClientClock = {
    now: () => now,
    sleep: async (ms, signal) => {
      if (ms === expiring) return limit(signal);
      if (LIMITS.has(ms)) return untilAborted(signal);
      signal?.throwIfAborted();
      pauses.push(ms);
      now += ms;
    },
  };
  return {
    url,
    seen,
    pauses,
    expire,
    client: (options) => new WavepoolClient({ baseUrl: url, clock, random: () => 0, ...options }),
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** The client's time limits, as opposed to its pauses: of an answer, and of a silent stream. */
const LIMITS = new Set([30_000, 60_000]);

function untilAborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(new Error('the limit was taken back')));
  });
}

const unexpected: Answer = (res) => {
  res.writeHead(418).end('the script has ended');
};

/** Never answers. */
export const silence: Answer = () => undefined;

/** Closes the connection without an answer. */
export const hangUp: Answer = (res) => {
  res.destroy();
};

export function json(body: unknown, status = 200): Answer {
  return (res) => {
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
}

export function problem(
  status: number,
  code: string,
  detail: string,
  headers: Record<string, string> = {},
): Answer {
  return (res) => {
    const body = { type: `urn:wavepool:error:${code}`, title: code, status, detail, code };
    res
      .writeHead(status, { 'content-type': 'application/problem+json', ...headers })
      .end(JSON.stringify({ ...body, instance: 'urn:wavepool:request:abc', retryable: false }));
  };
}

/** Sends the chunks and ends, or goes on for ever. */
export function events(chunks: readonly string[], { end = true } = {}): Answer {
  return (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const chunk of chunks) res.write(chunk);
    if (end) res.end();
  };
}

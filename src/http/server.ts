/** Starts and ends the HTTP server. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WavepoolError } from '../core/errors.ts';
import { createApp } from './app.ts';
import { isLoopback } from './auth/authenticate.ts';
import { Connections } from './connections.ts';
import { answerBrokenRequests } from './request/broken-requests.ts';
import type { Services } from './services.ts';

export interface RunningServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /**
   * Takes no more connections. Requests under way may finish until the deadline; those that wait for an inactive client are
   * ended before. `closing` of the services must be aborted first, so that streams end. Idempotent.
   */
  close(): Promise<void>;
}

/** A client has this long to send its headers. */
const HEADERS_TIMEOUT_MS = 30_000;

/**
 * Starts to listen.
 * @throws {WavepoolError} FORBIDDEN for an address that others can reach when there is no API key; INVALID_REQUEST when
 *   the address cannot be listened on
 */
export async function startServer(services: Services): Promise<RunningServer> {
  const { host, port, shutdownMs } = services.settings;
  await assertGuarded(services);
  const server = createServer(
    { headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: 0 },
    createApp(services),
  );
  answerBrokenRequests(server);
  const connections = new Connections(server);
  try {
    server.listen(port, host);
    await once(server, 'listening');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new WavepoolError('INVALID_REQUEST', `cannot listen on ${host}:${port}: ${why}`, {
      cause: error,
    });
  }
  // The address of a server that listens on a host and port is never a string or null.
  const { port: chosen } = server.address() as AddressInfo;
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= end(server, connections, shutdownMs);
    return closed;
  };
  return { url: urlOf(host, chosen), port: chosen, close, [Symbol.asyncDispose]: close };
}

async function assertGuarded({ settings: { host }, keys }: Services): Promise<void> {
  if (isLoopback(host) || (await keys.exist())) return;
  throw new WavepoolError(
    'FORBIDDEN',
    `${host} can be reached by others and there is no API key; make one with \`wavepool keys create\``,
  );
}

function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

async function end(server: Server, connections: Connections, deadlineMs: number): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  connections.drain();
  const late = setTimeout(() => server.closeAllConnections(), deadlineMs);
  await ended;
  connections.stop();
  clearTimeout(late);
}

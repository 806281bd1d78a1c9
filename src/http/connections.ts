/** The connections of a server, so that it can end: what waits for its clients must not wait for ever. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}

interface Connection {
  readonly socket: Socket;
  readonly exchanges: Set<Exchange>;
  /** What had been moved when it was last looked at. */
  bytesRead: number;
  unwritten: number;
  /** How often in a row nothing had moved though the client was waited for. */
  standstills: number;
}

const LOOK_MS = 500;
/** A client that does nothing for this many looks is not waited for any more. */
const MOST_STANDSTILLS = 2;

export class Connections {
  readonly #connections = new Map<Socket, Connection>();
  #timer: NodeJS.Timeout | undefined;

  constructor(server: Server) {
    server.on('connection', (socket) => {
      const connection: Connection = {
        ...{ socket, exchanges: new Set(), bytesRead: 0, unwritten: 0, standstills: 0 },
      };
      this.#connections.set(socket, connection);
      socket.once('close', () => this.#connections.delete(socket));
    });
    server.on('request', (req, res) => {
      const connection = this.#connections.get(req.socket);
      const exchange = { req, res };
      connection?.exchanges.add(exchange);
      res.once('close', () => {
        connection?.exchanges.delete(exchange);
        if (this.#timer !== undefined && connection?.exchanges.size === 0) req.socket.destroySoon();
      });
    });
  }

  /**
   * Ends connections on which no request is under way, half a header or none; from now on also those whose client neither
   * sends what it has begun nor reads its answer. Requests at work here are left alone. Idempotent.
   */
  drain(): void {
    if (this.#timer !== undefined) return;
    for (const { socket, exchanges } of this.#connections.values()) {
      if (exchanges.size === 0) socket.destroy();
    }
    this.#timer = setInterval(() => {
      for (const connection of this.#connections.values()) look(connection);
    }, LOOK_MS);
  }

  /** Call when the server has ended. */
  stop(): void {
    clearInterval(this.#timer);
  }
}

function look(connection: Connection): void {
  const { socket, exchanges } = connection;
  const { bytesRead, writableLength: unwritten } = socket;
  const moved = bytesRead !== connection.bytesRead || unwritten !== connection.unwritten;
  connection.bytesRead = bytesRead;
  connection.unwritten = unwritten;
  const waitsForClient = unwritten > 0 || [...exchanges].some(({ req }) => !req.complete);
  connection.standstills = waitsForClient && !moved ? connection.standstills + 1 : 0;
  if (connection.standstills >= MOST_STANDSTILLS) socket.destroy();
}

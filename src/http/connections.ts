/** The connections of a server. When the server ends, those that only wait for their client are closed. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}

interface Connection {
  readonly socket: Socket;
  readonly exchanges: Set<Exchange>;
  /** The bytes read, and those not yet written, at the last look. */
  bytesRead: number;
  unwritten: number;
  /** How many looks in a row found no progress while the server waited for the client. */
  standstills: number;
}

const LOOK_MS = 500;
/** After this many looks without progress the connection is closed. */
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
   * Closes connections without a request under way. From now on also closes those whose client neither sends the rest of its
   * request nor reads its answer. Requests that the server still works on are not touched. Idempotent.
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

  /** Must be called when the server has ended. */
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

/** Requests that violate HTTP or break off. Node reports them with their connection only. */
import type { Server } from 'node:http';
import type { Duplex } from 'node:stream';

type BreakListener = (why: string) => void;

const listeners = new WeakMap<Duplex, BreakListener>();

/** Messages for the codes that Node's parser gives for a broken body. */
const WORDS: Readonly<Record<string, string>> = {
  HPE_INVALID_EOF_STATE: 'it ended before its last chunk',
  HPE_INVALID_CHUNK_SIZE: 'the size of a chunk is no hexadecimal number that fits',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'the extensions of a chunk are too long',
  HPE_STRICT: 'a chunk does not end where its size says',
  HPE_HEADER_OVERFLOW: 'its trailers are too long',
  ECONNRESET: 'the connection broke off',
};

const ANSWERS: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

/**
 * Calls the listener when the body of the current request on this connection is broken. The listener must end the connection.
 * Returns a function that removes the listener.
 */
export function onBrokenBody(socket: Duplex, listener: BreakListener): () => void {
  listeners.set(socket, listener);
  return () => {
    if (listeners.get(socket) === listener) listeners.delete(socket);
  };
}

/** Answers as Node does by itself, except on connections with a listener of `onBrokenBody`. */
export function answerBrokenRequests(server: Server): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    const { code = '' } = error;
    const listener = listeners.get(socket);
    if (listener !== undefined) {
      listener(WORDS[code] ?? error.message);
      return;
    }
    if (code === 'ECONNRESET' || !socket.writable) {
      socket.destroy(error);
      return;
    }
    const status = ANSWERS[code] ?? '400 Bad Request';
    socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`, () => socket.destroy(error));
  });
}

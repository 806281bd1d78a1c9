/** Stands between Redis and everybody: slow, or not telling the truth about the server. */
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Passage } from './fault-bench.ts';

export interface ProxyOptions {
  /** Of everything, in each direction. */
  readonly delayMs?: number;
  /** What the server says, as the clients get it; keep its length. */
  readonly rewrite?: (answer: Buffer) => Buffer;
}

export async function startProxy(
  folder: string,
  target: string,
  { delayMs = 0, rewrite = (answer) => answer }: ProxyOptions,
): Promise<Passage> {
  const path = join(folder, 'proxy.sock');
  const sockets = new Set<Socket>();
  /** In order, for each piece waits equally long. */
  const forward = (from: Socket, to: Socket, change: (piece: Buffer) => Buffer): void => {
    sockets.add(from);
    from.on('data', (piece: Buffer) => {
      const send = (): void => void (to.writable && to.write(change(piece)));
      if (delayMs === 0) send();
      else setTimeout(send, delayMs);
    });
    from.on('error', () => undefined);
    from.on('close', () => {
      sockets.delete(from);
      to.destroy();
    });
  };
  const server = createServer((client) => {
    const upstream = connect(target);
    forward(client, upstream, (piece) => piece);
    forward(upstream, client, rewrite);
  });
  await new Promise<void>((resolve) => {
    server.listen(path, resolve);
  });
  return {
    address: { kind: 'socket', path },
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

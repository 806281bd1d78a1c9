/** A receiver of webhooks: a real server whose answers are given one by one. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface Received {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A status, or what is done with the response. */
export type Answer = number | ((response: ServerResponse) => void);

export class WebhookReceiver implements AsyncDisposable {
  readonly url: string;
  readonly received: Received[] = [];
  /** Most requests that were open at once. */
  mostAtOnce = 0;
  readonly #close: () => Promise<void>;
  readonly #waiting = new Set<() => void>();

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.#close = close;
  }

  /** @param answers of the requests in order; the last one is that of all later ones, too. */
  static async start(...answers: readonly Answer[]): Promise<WebhookReceiver> {
    let open = 0;
    let at = 0;
    const server = createServer((request, response) => {
      open += 1;
      receiver.mostAtOnce = Math.max(receiver.mostAtOnce, open);
      response.on('close', () => {
        open -= 1;
      });
      const answer = answers[Math.min(at, answers.length - 1)] ?? 204;
      at += 1;
      void text(request).then((body) => {
        const headers = Object.entries(request.headers).map(([name, value]) => [name, `${value}`]);
        receiver.#hear({ path: request.url ?? '', headers: Object.fromEntries(headers), body });
        if (typeof answer === 'number') response.writeHead(answer).end();
        else answer(response);
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    // A server that listens on a port has an address with one.
    const { port } = server.address() as AddressInfo;
    const receiver = new WebhookReceiver(`http://127.0.0.1:${port}/hook`, async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    });
    return receiver;
  }

  /** Resolves with the first requests, when there are so many. */
  async first(count: number): Promise<Received[]> {
    while (this.received.length < count) {
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
    return this.received.slice(0, count);
  }

  #hear(request: Received): void {
    this.received.push(request);
    for (const look of this.#waiting) look();
    this.#waiting.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }
}

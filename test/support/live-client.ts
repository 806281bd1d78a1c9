/** A client of live audio that writes its own HTTP, so that it can also break it. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { LiveEvent } from '../../src/core/live/live-api.ts';

const PATH = '/v1/audio/transcriptions/live';

export interface LiveClientOptions {
  readonly query?: Readonly<Record<string, string>>;
  /** @defaultValue `Transfer-Encoding: chunked` */
  readonly headers?: readonly string[];
}

export class LiveClient implements Disposable {
  readonly socket: Socket;
  #text = '';
  #hasEnded = false;
  #wake: () => void = () => undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      this.#text += text;
      this.#wake();
    });
    const end = (): void => {
      this.#hasEnded = true;
      this.#wake();
    };
    socket.on('end', end);
    socket.on('close', end);
    socket.on('error', end);
  }

  /** Resolves when the head of the request has been written. */
  static async open(url: string, options: LiveClientOptions = {}): Promise<LiveClient> {
    const { query = {}, headers = ['Transfer-Encoding: chunked'] } = options;
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    const client = new LiveClient(socket);
    await once(socket, 'connect');
    const line = `POST ${PATH}?${new URLSearchParams(query)} HTTP/1.1`;
    const head = [line, 'Host: localhost', 'Connection: close', ...headers];
    client.write(`${head.join('\r\n')}\r\n\r\n`);
    return client;
  }

  /** As it is. */
  write(bytes: string | Uint8Array): void {
    this.socket.write(bytes);
  }

  chunk(bytes: Uint8Array, extension = ''): void {
    this.write(`${bytes.length.toString(16)}${extension}\r\n`);
    this.write(bytes);
    this.write('\r\n');
  }

  finish(trailers = ''): void {
    this.write(`0\r\n${trailers}\r\n`);
  }

  /** The events so far. */
  get events(): LiveEvent[] {
    const lines = this.#text.split('\n').filter((line) => line.startsWith('data: {'));
    return lines.flatMap((line) => LiveEvent.safeParse(parse(line.slice(6))).data ?? []);
  }

  /** Of an answer that is no stream. */
  async answer(): Promise<{ readonly status: number; readonly text: string }> {
    await this.#until(() => this.#hasEnded || this.#text.includes('\r\n\r\n'));
    await this.ended();
    return { status: Number(this.#text.split(' ')[1]), text: this.#text };
  }

  /** The first event of a type; fails when the stream ends before. */
  async event<Type extends LiveEvent['type']>(
    type: Type,
  ): Promise<Extract<LiveEvent, { type: Type }>> {
    const isIt = (event: LiveEvent): event is Extract<LiveEvent, { type: Type }> =>
      event.type === type;
    await this.#until(() => this.#hasEnded || this.events.some(isIt));
    const found = this.events.find(isIt);
    if (found === undefined) throw new Error(`no ${type} in: ${this.#text}`);
    return found;
  }

  /** Resolves when the server has ended the connection. */
  async ended(): Promise<void> {
    await this.#until(() => this.#hasEnded);
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }

  async #until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** An event may be split by the answer's own chunks. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Samples as bytes: s16le. */
export function pcm16(samples: Float32Array): Buffer {
  const bytes = Buffer.alloc(samples.length * 2);
  for (const [at, sample] of samples.entries()) {
    bytes.writeInt16LE(Math.round(sample * 32_767), at * 2);
  }
  return bytes;
}

/** A mono WAV file of s16le. */
export function wavOf(pcm: Buffer, sampleRate = 16_000): Buffer {
  const head = Buffer.alloc(44);
  head.write('RIFF', 0);
  head.writeUInt32LE(36 + pcm.length, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(sampleRate, 24);
  head.writeUInt32LE(sampleRate * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36);
  head.writeUInt32LE(pcm.length, 40);
  return Buffer.concat([head, pcm]);
}

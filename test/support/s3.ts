/** A real S3 server in a process of its own, with a way to it that a test can cut. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { resolve } from 'node:path';
import { CreateBucketCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { S3Settings } from '../../src/core/s3-settings.ts';

/** Any will do. */
const CREDENTIALS = { accessKeyId: 'test', secretAccessKey: 'test-secret' };

/** For processes that the tests start, and for this one: the SDK looks there. */
export const S3_ENVIRONMENT = {
  AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
  AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
  AWS_EC2_METADATA_DISABLED: 'true',
} as const;
Object.assign(process.env, S3_ENVIRONMENT);

export class S3Server implements AsyncDisposable {
  /** Of the gate in front of the server. */
  readonly endpoint: string;
  readonly #gate: Gate;
  #child: ChildProcess;

  private constructor(child: ChildProcess, gate: Gate) {
    this.#child = child;
    this.#gate = gate;
    this.endpoint = `http://127.0.0.1:${gate.port}`;
  }

  static async start(): Promise<S3Server> {
    const { child, port } = await startServer();
    return new S3Server(child, await Gate.open(port));
  }

  /** The next connection over which the server has sent so much breaks. */
  breakAfter(bytes: number): void {
    this.#gate.breakAfter = bytes;
  }

  /** How many connections broke so. */
  get broken(): number {
    return this.#gate.broken;
  }

  /** A new, empty bucket; in one whose name begins with `careless-` the conditions of requests are not heeded. */
  async makeBucket(name = `bucket-${randomBytes(6).toString('hex')}`): Promise<string> {
    await this.client().send(new CreateBucketCommand({ Bucket: name }));
    return name;
  }

  client(): S3Client {
    return new S3Client({
      endpoint: this.endpoint,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: CREDENTIALS,
    });
  }

  settings(bucket: string, more: Partial<S3Settings> = {}): S3Settings {
    return S3Settings.parse({
      place: { bucket, prefix: 'wave/pool/' },
      endpoint: this.endpoint,
      pathStyle: true,
      requestTimeoutMs: 5_000,
      ...more,
    });
  }

  async keys(bucket: string): Promise<string[]> {
    const { Contents = [] } = await this.client().send(
      new ListObjectsV2Command({ Bucket: bucket }),
    );
    return Contents.map(({ Key = '' }) => Key);
  }

  /** Nobody gets to the server any more; connections there are break. */
  cut(): Promise<void> {
    return this.#gate.close();
  }

  /** Under the same address as before. */
  async restore(): Promise<void> {
    await this.#gate.listen();
  }

  /** The process dies, and with it all that it held; another one takes its place, with this bucket. */
  async replace(bucket: string): Promise<void> {
    await this.cut();
    await end(this.#child);
    const { child, port } = await startServer();
    this.#child = child;
    this.#gate.target = port;
    await this.restore();
    await this.makeBucket(bucket);
  }

  /** Answers nothing until it goes on. */
  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  goOn(): void {
    this.#child.kill('SIGCONT');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#gate.close();
    await end(this.#child);
  }
}

function serverCommand(): readonly string[] {
  const program = resolve(import.meta.dirname, '../../scripts/s3-server.mjs');
  return JSON.parse(execFileSync(process.execPath, [program], { encoding: 'utf8' }));
}

async function startServer(): Promise<{ child: ChildProcess; port: number }> {
  const [python = '', script = ''] = serverCommand();
  if (!existsSync(python)) {
    throw new Error(`${python} is missing: run \`node scripts/setup.mjs --tests\``);
  }
  const child = spawn(python, [script], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'exit').then(() => {
    throw new Error('the S3 server did not start');
  });
  const [line] = await Promise.race([once(child.stdout, 'data'), ended]);
  ended.catch(() => undefined);
  return { child, port: Number(String(line)) };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

/** Passes connections on. */
class Gate {
  target: number;
  breakAfter = Number.POSITIVE_INFINITY;
  broken = 0;
  #server: Server | undefined;
  #port = 0;
  readonly #sockets = new Set<Socket>();

  private constructor(target: number) {
    this.target = target;
  }

  static async open(target: number): Promise<Gate> {
    const gate = new Gate(target);
    await gate.listen();
    return gate;
  }

  get port(): number {
    return this.#port;
  }

  async listen(): Promise<void> {
    const server = createServer((socket) => this.#pass(socket));
    server.listen(this.#port, '127.0.0.1');
    await once(server, 'listening');
    // A server that listens on a host and port has such an address.
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    for (const socket of this.#sockets) socket.destroy();
    if (server === undefined) return;
    server.close();
    await once(server, 'close');
  }

  #pass(socket: Socket): void {
    const onward = connect(this.target, '127.0.0.1');
    let received = 0;
    onward.on('data', (piece: Buffer) => {
      received += piece.length;
      if (received <= this.breakAfter) return;
      this.breakAfter = Number.POSITIVE_INFINITY;
      this.broken += 1;
      socket.destroy();
    });
    for (const [from, to] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      this.#sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  }
}

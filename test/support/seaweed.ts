/** SeaweedFS: an S3 server that keeps what it has confirmed, also when it is killed. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  GetObjectCommand,
  HeadBucketCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
} from '@aws-sdk/client-s3';
import { freePort } from './redis-processes.ts';
import { S3_ENVIRONMENT } from './s3.ts';

const HOST = '127.0.0.1';
/** Each has a port; those of gRPC follow from them. */
const PARTS = ['master', 'volume', 'filer', 's3', 'admin'] as const;
const UNUSED = ['-webdav=false', '-admin.ui=false', '-s3.port.iceberg=0', '-s3.port.lance=0'];

export class SeaweedServer implements AsyncDisposable {
  readonly endpoint: string;
  readonly bucket: string;
  readonly client: S3Client;
  readonly #arguments: readonly string[];
  #child: ChildProcess | undefined;

  private constructor(endpoint: string, bucket: string, args: readonly string[]) {
    this.endpoint = endpoint;
    this.bucket = bucket;
    this.#arguments = args;
    const credentials = {
      accessKeyId: S3_ENVIRONMENT.AWS_ACCESS_KEY_ID,
      secretAccessKey: S3_ENVIRONMENT.AWS_SECRET_ACCESS_KEY,
    };
    const address = { endpoint, region: 'us-east-1', forcePathStyle: true, credentials };
    this.client = new S3Client({ ...address, maxAttempts: 1 });
  }

  /** Everything lies in the folder. Returns when the bucket is there. */
  static async start(folder: string, bucket: string): Promise<SeaweedServer> {
    const dir = join(folder, 'objects');
    mkdirSync(dir, { recursive: true });
    const ports = new Map<string, number>();
    for (const part of PARTS) ports.set(part, await freePort());
    const server = new SeaweedServer(`http://${HOST}:${ports.get('s3')}`, bucket, [
      ...['mini', `-dir=${dir}`, `-ip=${HOST}`, `-ip.bind=${HOST}`, `-bucket=${bucket}`, ...UNUSED],
      ...[...ports].map(([part, port]) => `-${part}.port=${port}`),
      ...['filer', 's3'].map((part) => `-${part}.localSocket=${join(folder, `${part}.sock`)}`),
      '-master.telemetry=false',
    ]);
    await server.restart();
    return server;
  }

  /** On what it has kept. */
  async restart(): Promise<void> {
    const child = spawn(program(), this.#arguments, { stdio: 'ignore' });
    this.#child = child;
    for (;;) {
      try {
        await this.client.send(new HeadBucketCommand({ Bucket: this.bucket }));
        return;
      } catch (error) {
        // Nothing tells when it is ready but an answer.
        if (child.exitCode !== null) throw error;
        await pause(50);
      }
    }
  }

  /** With `kill -9`. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  async put(key: string, body: Buffer): Promise<void> {
    await this.client.send(new PutObjectCommand({ Bucket: this.bucket, Key: key, Body: body }));
  }

  async read(key: string): Promise<string> {
    const object = { Bucket: this.bucket, Key: key };
    const { Body } = await this.client.send(new GetObjectCommand(object));
    return (await Body?.transformToString()) ?? '';
  }

  /** All below the prefix. */
  async keys(prefix: string): Promise<string[]> {
    const found: string[] = [];
    const below = { Bucket: this.bucket, Prefix: prefix };
    for await (const { Contents = [] } of paginateListObjectsV2({ client: this.client }, below)) {
      found.push(...Contents.map(({ Key = '' }) => Key));
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.destroy();
    await this.kill();
  }
}

function program(): string {
  const script = resolve(import.meta.dirname, '../../scripts/s3-server.mjs');
  const printed = execFileSync(process.execPath, [script, 'durable'], { encoding: 'utf8' });
  const [path = '']: readonly string[] = JSON.parse(printed);
  if (!existsSync(path)) {
    throw new Error(`${path} is missing: run \`node scripts/setup.mjs --tests\``);
  }
  return path;
}

/** A Redis that is in the hands of a scenario: paused, killed, restarted on its log, given too little memory. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { readConfig } from '../../../src/core/config.ts';
import {
  closeConnection,
  openConnection,
  type RedisAddress,
} from '../../../src/queue/redis/connection.ts';
import { findRedisServer } from '../../../src/queue/redis/redis-binary.ts';
import { signalProcess } from '../../support/process-table.ts';

export interface RedisServerOptions {
  /** For the socket. */
  readonly folder: string;
  /** For the log. @defaultValue `folder/redis` */
  readonly dataDir?: string;
  /** Beside an append-only file and `noeviction`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Starts it again when it ends by itself, as a service manager does. */
  readonly lookAfter?: boolean;
}

const LOOK_AFTER_MS = 200;

export class RedisServer implements AsyncDisposable {
  readonly socket: string;
  readonly address: RedisAddress;
  /** Waits while the server is away. */
  readonly connection: Redis;
  readonly #arguments: readonly string[];
  readonly #program: string;
  readonly #lookAfter: boolean;
  #child: ChildProcess | undefined;

  private constructor(program: string, options: RedisServerOptions) {
    const { folder, dataDir = join(folder, 'redis'), settings = {}, lookAfter = false } = options;
    mkdirSync(dataDir, { recursive: true });
    this.#program = program;
    this.#lookAfter = lookAfter;
    this.socket = join(folder, 'redis.sock');
    this.address = { kind: 'socket', path: this.socket };
    const all = {
      port: '0',
      unixsocket: this.socket,
      dir: dataDir,
      logfile: join(folder, 'redis.log'),
      appendonly: 'yes',
      // As the private server of the product.
      appendfsync: 'always',
      save: '',
      'maxmemory-policy': 'noeviction',
      ...settings,
    };
    this.#arguments = Object.entries(all).flatMap(([name, value]) => [`--${name}`, value]);
    this.connection = openConnection(this.address, { role: 'patient', name: 'scenario' });
  }

  static async start(options: RedisServerOptions): Promise<RedisServer> {
    const { path } = await findRedisServer(readConfig());
    const server = new RedisServer(path, options);
    await server.restart();
    return server;
  }

  get pid(): number {
    return this.#child?.pid ?? -1;
  }

  /** Returns when it serves again what its log has. */
  async restart(): Promise<void> {
    this.#spawn();
    await this.connection.ping();
  }

  #spawn(): void {
    const child = spawn(this.#program, this.#arguments, { stdio: 'ignore' });
    this.#child = child;
    if (!this.#lookAfter) return;
    child.once('exit', (code) => {
      if (code === null) return;
      setTimeout(() => this.#child === child && this.#spawn(), LOOK_AFTER_MS);
    });
  }

  pause(): void {
    signalProcess(this.pid, 'SIGSTOP');
  }

  resume(): void {
    signalProcess(this.pid, 'SIGCONT');
  }

  /** As a crash of the machine does, but for what the disk still had to write. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  async configure(name: string, value: string): Promise<void> {
    await this.connection.config('SET', name, value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    closeConnection(this.connection);
    await this.kill();
  }
}

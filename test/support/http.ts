/** A whole HTTP server on a free loopback port, with a Redis of its own. */
import { mkdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { createLogger } from '../../src/core/logger.ts';
import type { S3Settings } from '../../src/core/s3-settings.ts';
import type { Tracing } from '../../src/core/tracing.ts';
import type { Every } from '../../src/http/events/event-broadcaster.ts';
import { openServices } from '../../src/http/open-services.ts';
import { startServer } from '../../src/http/server.ts';
import type { Services } from '../../src/http/services.ts';
import { DEFAULT_SETTINGS, type HttpSettings } from '../../src/http/settings.ts';
import { startRedis, type TestRedis } from './redis.ts';

/** What the tests' requests are for unless they say otherwise. */
export const TEST_MODEL = 'test-model';

export interface TestServer extends AsyncDisposable {
  readonly url: string;
  readonly redis: TestRedis;
  readonly services: Services;
  readonly uploadsDir: string;
  /** The one folder in which inputs may be named by path. */
  readonly inputRoot: string;
  /** `fetch` of a path. */
  request(path: string, init?: RequestInit): Promise<Response>;
  /** A POST of JSON. */
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Lets streams end and takes no more requests. */
  close(): Promise<void>;
}

export interface TestServerOptions {
  readonly settings?: Partial<HttpSettings>;
  /** @defaultValue TEST_MODEL alone */
  readonly models?: readonly string[];
  /** One of another server, which also ends it. */
  readonly redis?: TestRedis;
  readonly now?: () => number;
  readonly every?: Every;
  /** @defaultValue everything is in folders */
  readonly s3?: S3Settings;
  readonly tracing?: Tracing;
}

export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const redis = options.redis ?? (await startRedis());
  const endRedis = async (): Promise<void> => {
    if (options.redis === undefined) await redis[Symbol.asyncDispose]();
  };
  const ending = new AbortController();
  await mkdir(join(redis.dataDir, 'inputs'), { recursive: true });
  const uploadsDir = join(redis.dataDir, 'uploads');
  const inputRoot = await realpath(join(redis.dataDir, 'inputs'));
  const services = await openServices({
    address: redis.address,
    models: options.models ?? [TEST_MODEL],
    resultsDir: join(redis.dataDir, 'results'),
    uploadsDir,
    s3: options.s3,
    settings: {
      ...DEFAULT_SETTINGS,
      port: 0,
      defaultModel: TEST_MODEL,
      inputRoots: [inputRoot],
      ...options.settings,
    },
    version: '0.0.0-test',
    logger: createLogger('silent', 'test'),
    closing: ending.signal,
    now: options.now,
    every: options.every,
    tracing: options.tracing,
  });
  const server = await startServer(services).catch(async (error: unknown) => {
    await services.queues.close();
    await endRedis();
    throw error;
  });
  const request = (path: string, init?: RequestInit): Promise<Response> =>
    fetch(server.url + path, init);
  const close = async (): Promise<void> => {
    ending.abort();
    await server.close();
  };
  return {
    url: server.url,
    redis,
    services,
    uploadsDir,
    inputRoot,
    request,
    post: (path, body, headers = {}) =>
      request(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
    close,
    [Symbol.asyncDispose]: async () => {
      await close();
      await services.queues.close();
      await endRedis();
    },
  };
}

/** A server process that tells which native files it loads, when it is asked. */
import process from 'node:process';
import { createLogger } from '../../src/core/logger.ts';
import { openServices } from '../../src/http/open-services.ts';
import { ROUTES } from '../../src/http/route-table.ts';
import { startServer } from '../../src/http/server.ts';
import { DEFAULT_SETTINGS } from '../../src/http/settings.ts';
import type { RedisAddress } from '../../src/queue/redis/connection.ts';

export interface ServingRequest {
  readonly address: RedisAddress;
  readonly folder: string;
}

export interface ServingReply {
  /** Paths of native files, in the order in which they were loaded. */
  readonly loaded: readonly string[];
  /** Of the read routes that were asked. */
  readonly statuses: Readonly<Record<string, number>>;
}

const loaded: string[] = [];
const { dlopen } = process;
process.dlopen = (module: object, filename: string, flags?: number) => {
  loaded.push(filename);
  if (flags === undefined) dlopen.call(process, module, filename);
  else dlopen.call(process, module, filename, flags);
};

async function serve({ address, folder }: ServingRequest): Promise<ServingReply> {
  const closing = new AbortController();
  const services = await openServices({
    address,
    models: ['test-model'],
    resultsDir: `${folder}/results`,
    uploadsDir: `${folder}/uploads`,
    settings: { ...DEFAULT_SETTINGS, port: 0, defaultModel: 'test-model' },
    version: '0.0.0-test',
    logger: createLogger('silent', 'test'),
    closing: closing.signal,
  });
  const server = await startServer(services);
  const queue = await services.queues.queueOf('test-model');
  await queue.add({ id: 'a-job', input: { kind: 'path', path: '/a.wav' } });
  const statuses: Record<string, number> = {};
  for (const { method, path } of ROUTES) {
    if (method !== 'get' || path.endsWith('/events')) continue;
    const address = server.url + path.replace(':id', 'a-job').replace(':name', 'page.css');
    const response = await fetch(address);
    await response.arrayBuffer();
    statuses[path] = response.status;
  }
  closing.abort();
  await server.close();
  await services.queues.close();
  return { loaded, statuses };
}

process.on('message', (request: ServingRequest) => {
  void serve(request).then((reply) => process.send?.(reply, () => process.disconnect()));
});

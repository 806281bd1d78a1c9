/**
 * The worker process. Its supervisor sends the settings, then hears what it holds; when the supervisor goes away, the
 * worker ends, too. Exit codes: 0 after a shutdown that was asked for, 3 when it could not start.
 */
import process from 'node:process';
import { readConfig } from '../src/core/config.ts';
import { toWavepoolError } from '../src/core/errors.ts';
import { createLogger } from '../src/core/logger.ts';
import type { Tracing } from '../src/core/tracing.ts';
import { parseSupervisorMessage, type WorkerMessage } from '../src/core/worker/ipc.ts';
import type { WorkerSettings } from '../src/core/worker/worker-settings.ts';
import { NativeEngine } from '../src/engine/native-engine.ts';
import { EmbeddedRedis } from '../src/queue/redis/embedded-redis.ts';
import { openStorage } from '../src/storage/open-storage.ts';
import { openTracing } from '../src/tracing/open-tracing.ts';
import { AudioWorker } from '../src/worker/audio-worker.ts';

/** For a worker that is told to end by itself, and not through its supervisor. */
const DRAIN_MS = 30_000;

let worker: AudioWorker | undefined;
let tracing: Tracing | undefined;
let privateRedisOf: string | undefined;

function report(message: WorkerMessage, sent: () => void = () => undefined): void {
  // A supervisor that has gone is noticed by 'disconnect'.
  if (process.connected) process.send?.(message, undefined, undefined, sent);
  else sent();
}

async function start(settings: WorkerSettings): Promise<void> {
  const logger = createLogger(settings.logLevel, 'worker');
  privateRedisOf = settings.privateRedisOf;
  try {
    const engine = new NativeEngine({ addon: settings.addonPath });
    const maxObjectBytes = settings.urls.maxBytes;
    const { results, places } = await openStorage({ ...settings, maxObjectBytes });
    tracing = await openTracing(readConfig().tracing, 'worker');
    worker = new AudioWorker({
      ...{ settings, engine, planner: engine, results, places, tracing, logger, report },
    });
    await worker.start();
    report({ type: 'ready' });
  } catch (thrown) {
    const { code, detail } = toWavepoolError(thrown);
    if (code === 'INTERNAL') logger.error({ err: thrown }, 'the worker could not start');
    report({ type: 'failed', code, detail }, () => process.exit(3));
  }
}

async function shutdown(deadlineMs: number): Promise<void> {
  await worker?.close({ deadlineMs });
  await tracing?.close();
  process.exit();
}

/** The supervisor was killed: nobody else is left to stop its Redis. */
async function shutdownOrphaned(): Promise<void> {
  await worker?.close({ deadlineMs: 0 });
  // The next command of this data directory finds the server and goes on with it.
  if (privateRedisOf !== undefined) {
    await EmbeddedRedis.stopUnused({ dataDir: privateRedisOf }).catch(() => undefined);
  }
  process.exit();
}

process.on('message', (raw) => {
  const message = parseSupervisorMessage(raw);
  if (message?.type === 'start') void start(message.settings);
  if (message?.type === 'shutdown') void shutdown(message.deadlineMs);
});
process.on('disconnect', () => void shutdownOrphaned());
// Ctrl-C reaches the whole process group; the supervisor decides what it means.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => void shutdown(DRAIN_MS));

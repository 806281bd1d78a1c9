/**
 * What it costs to submit a large batch: `node bench/batch-submit.mjs [items] [--json]` (50 000), after `npm run build`.
 *
 * Each way of submitting gets a Redis of its own (durable, as in production) and processes of its own: a server, and a
 * producer that sends the items and knows nothing else. Told are the time until the batch has all items, the largest
 * resident set of each process, the longest delay of its event loop, the most CPU time of all its threads that passed
 * between two turns of the loop (on a machine that does other work, too, the delay alone says little), and what the batch
 * holds in Redis. The inputs are one small file, named over and over: every one is looked up on disk. Then half of the
 * items end, one in ten of them by failing, which shows what counting and cancelling cost.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import process from 'node:process';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { readConfig } from '../dist/src/core/config.js';
import { createLogger } from '../dist/src/core/logger.js';
import { openServices } from '../dist/src/http/open-services.js';
import { startServer } from '../dist/src/http/server.js';
import { DEFAULT_SETTINGS } from '../dist/src/http/settings.js';
import { BatchStore } from '../dist/src/queue/batches/batches.js';
import { QueueRegistry } from '../dist/src/queue/queue-registry.js';
import { EmbeddedRedis } from '../dist/src/queue/redis/embedded-redis.js';

const MODEL = 'bench';
const SELF = fileURLToPath(import.meta.url);

/** Peak resident set since the process began, in MB. */
function peakMegabytes() {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024;
}

function watchLoop() {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  let busiest = 0;
  let last = process.cpuUsage();
  setInterval(() => {
    const { user, system } = process.cpuUsage(last);
    last = process.cpuUsage();
    busiest = Math.max(busiest, user + system);
  }, 1).unref();
  return () => ({
    busyMs: Math.round(busiest / 1e3),
    stallMs: Math.round(delay.max / 1e6),
    p99Ms: Math.round(delay.percentile(99) / 1e5) / 10,
    peakMb: Math.round(peakMegabytes()),
  });
}

async function serve({ address, dataDir, root }) {
  const closing = new AbortController();
  const services = await openServices({
    address,
    models: [MODEL],
    resultsDir: path.join(dataDir, 'results'),
    uploadsDir: path.join(dataDir, 'uploads'),
    settings: { ...DEFAULT_SETTINGS, port: 0, defaultModel: MODEL, inputRoots: [root] },
    version: 'bench',
    logger: createLogger('silent', 'bench'),
    closing: closing.signal,
  });
  // The queue is opened by the first request otherwise.
  await services.queues.queueOf(MODEL);
  const server = await startServer(services);
  let report = watchLoop();
  process.on('message', async (message) => {
    if (message === 'start') report = watchLoop();
    if (message === 'report') process.send(report());
    if (message !== 'stop') return;
    closing.abort();
    await server.close();
    await services.queues.close();
    process.disconnect();
  });
  process.send({ url: server.url });
}

function* lines(file, count) {
  const line = `${JSON.stringify({ path: file })}\n`;
  for (let sent = 0; sent < count; sent += 500) yield line.repeat(Math.min(500, count - sent));
}

async function produce({ way, url, address, file, count }) {
  const report = watchLoop();
  const startedAt = performance.now();
  let id;
  if (way === 'SDK') {
    const queues = await QueueRegistry.open({ address, models: [MODEL] });
    const store = new BatchStore({ queues });
    const item = { input: { kind: 'path', path: file } };
    const items = (function* () {
      for (let at = 0; at < count; at++) yield item;
    })();
    ({ id } = await store.create({ model: MODEL, jobs: items }));
    await store.close();
    await queues.close();
  } else {
    const inputs = () => Array.from({ length: count }, () => ({ path: file }));
    const isJson = way === 'JSON';
    const response = await fetch(`${url}/v1/batches`, {
      method: 'POST',
      headers: { 'content-type': isJson ? 'application/json' : 'application/x-ndjson' },
      body: isJson ? JSON.stringify({ inputs: inputs() }) : Readable.from(lines(file, count)),
      duplex: 'half',
    });
    const text = await response.text();
    if (response.status !== 202) throw new Error(text);
    ({ id } = JSON.parse(text));
  }
  process.send({ id, seconds: (performance.now() - startedAt) / 1000, ...report() });
  process.disconnect();
}

function start(role, options) {
  return fork(SELF, [role, JSON.stringify(options)], { stdio: 'inherit' });
}

async function ask(child, message) {
  const answer = once(child, 'message');
  if (message !== undefined) child.send(message);
  return (await answer)[0];
}

/** Ends items as BullMQ would have it, without the work: one in ten fails. */
async function endAll(connection, id, count) {
  const key = (set) => `wavepool:_batches:${id}:${set}`;
  const outcome = JSON.stringify({ resultKey: 'x'.repeat(72), pad: 'x'.repeat(240) });
  const keys = await connection.smembers(key('dependencies'));
  for (let at = 0; at < count; at += 1_000) {
    const pipeline = connection.pipeline();
    for (const [index, item] of keys.slice(at, at + 1_000).entries()) {
      pipeline.srem(key('dependencies'), item);
      if (index % 10 === 0) pipeline.hset(key('failed'), item, 'INPUT_EMPTY: the input is empty');
      else pipeline.hset(key('processed'), item, outcome);
    }
    await pipeline.exec();
  }
}

async function usedMegabytes(connection) {
  return Number(/^used_memory:(\d+)/m.exec(await connection.info('memory'))[1]) / 1024 ** 2;
}

async function timed(run) {
  const startedAt = performance.now();
  await run();
  return Math.round((performance.now() - startedAt) * 10) / 10;
}

async function measure(way, count) {
  const dataDir = realpathSync(mkdtempSync(path.join(tmpdir(), 'wavepool-bench-')));
  const runtimeDirs = [path.join(dataDir, 'run')];
  const file = path.join(dataDir, 'clip.wav');
  writeFileSync(file, 'audio');
  const redis = await EmbeddedRedis.acquire({ ...readConfig(), dataDir, runtimeDirs });
  const { address } = redis;
  const queues = await QueueRegistry.open({ address, models: [MODEL] });
  const store = new BatchStore({ queues });
  const server = start('serve', { address, dataDir, root: dataDir });
  const { url } = await ask(server);
  server.send('start');
  const before = await usedMegabytes(queues.connection);
  const producer = start('produce', { way, url, address, file, count });
  const { id, seconds, ...own } = await ask(producer);
  const served = await ask(server, 'report');
  const held = (await usedMegabytes(queues.connection)) - before;
  const { counts } = await store.get(id);
  if (counts.total !== count) throw new Error(`${counts.total} of ${count} items were added`);
  const found = { way, items: count, seconds, producer: own, server: served, redisMb: held };
  if (way === 'SDK') {
    const waiting = await timed(() => store.get(id));
    await endAll(queues.connection, id, count / 2);
    const half = await timed(() => store.get(id));
    const sets = (await usedMegabytes(queues.connection)) - before - held;
    const cancel = await timed(() => store.cancel(id));
    const cancelled = await timed(() => store.get(id));
    found.counts = { waitingMs: waiting, halfEndedMs: half, setsMb: sets };
    found.cancelling = { items: count / 2, ms: cancel, countMs: cancelled };
  }
  server.send('stop');
  await once(server, 'exit');
  await store.close();
  await queues.close();
  await redis.release();
  rmSync(dataDir, { recursive: true, force: true });
  return found;
}

function tell({ way, items, seconds, producer, server, redisMb, counts, cancelling }) {
  const figure = ({ stallMs, p99Ms, busyMs, peakMb }) =>
    `${peakMb} MB, stall ${stallMs} ms (p99 ${p99Ms}, ${busyMs} of CPU)`;
  console.log(
    `${way.padEnd(6)} ${items} items in ${seconds.toFixed(1)} s; producer ${figure(producer)}; ` +
      `server ${figure(server)}; Redis +${redisMb.toFixed(0)} MB`,
  );
  if (counts === undefined) return;
  console.log(
    `       counts: ${counts.waitingMs} ms all waiting, ${counts.halfEndedMs} ms half ended ` +
      `(sets +${counts.setsMb.toFixed(0)} MB), ${cancelling.countMs} ms half cancelled; ` +
      `cancelling ${cancelling.items} took ${cancelling.ms} ms`,
  );
}

async function measureAll(items, asJson) {
  const ways = [];
  for (const way of ['SDK', 'NDJSON', 'JSON']) {
    const found = await measure(way, items);
    ways.push(found);
    if (!asJson) tell(found);
  }
  if (asJson) console.log(JSON.stringify(ways));
}

const [role, argument] = process.argv.slice(2);
if (role === 'serve') await serve(JSON.parse(argument));
else if (role === 'produce') await produce(JSON.parse(argument));
else {
  const [items = '50000'] = process.argv.slice(2).filter((word) => word !== '--json');
  await measureAll(Number(items), process.argv.includes('--json'));
}

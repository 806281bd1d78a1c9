/**
 * How heavy the pages are, and how soon they show what they are for, when there are many finished jobs. Every round opens
 * each page in a browser without a cache; what counts is the median over the rounds.
 *
 *   npm run build && node bench/dashboard.mjs [--jobs N] [--rounds N] [--json]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { readConfig } from '../dist/src/core/config.js';
import { createLogger } from '../dist/src/core/logger.js';
import { openServices } from '../dist/src/http/open-services.js';
import { startServer } from '../dist/src/http/server.js';
import { DEFAULT_SETTINGS } from '../dist/src/http/settings.js';
import { EmbeddedRedis } from '../dist/src/queue/redis/embedded-redis.js';
import { HeldJobs } from '../dist/src/worker/job/held-jobs.js';
import { ModelQueue } from '../dist/src/worker/job/model-queue.js';
import { Quarantine } from '../dist/src/worker/job/quarantine.js';

const MODEL = 'moonshine-tiny';
const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '20000' },
    rounds: { type: 'string', default: '5' },
    json: { type: 'boolean', default: false },
  },
});
const jobs = Number(values.jobs);
const rounds = Number(values.rounds);

/** What a visitor came for, by page. */
const PAGES = [
  ['overview', '/dashboard', `#completed >> text="${jobs.toLocaleString('en-US')}"`],
  ['jobs', '/dashboard/jobs', '#list tbody tr:nth-child(25)'],
  ['upload', '/dashboard/upload', `#model option[value="${MODEL}"]`],
  ['queues', '/dashboard/queues', `text=${MODEL} >> nth=0`],
  ['queue', `/dashboard/queues/queue/${MODEL}?status=completed`, 'text=transcribe >> nth=0'],
];

const OUTCOME = {
  resultKey: 'none',
  durationSeconds: 63.2,
  speechSeconds: 58.4,
  segments: 12,
  characters: 840,
  noSpeech: false,
  warnings: [],
  timings: { queuedMs: 1_200, decodeMs: 80, vadMs: 210, asrMs: 2_900, totalMs: 3_300 },
};

async function finishJobs(address, queue) {
  let left = jobs;
  let allEnded;
  const ended = new Promise((resolve) => {
    allEnded = resolve;
  });
  class CountedJobs extends HeldJobs {
    release(...job) {
      super.release(...job);
      left -= 1;
      if (left === 0) allEnded();
    }
  }
  const worker = await ModelQueue.open({
    ...{ address, model: MODEL, concurrency: 200, longJobMs: 10_000 },
    ...{ lockDurationMs: 30_000, stalledIntervalMs: 30_000 },
    processor: { process: async () => OUTCOME },
    held: new CountedJobs(() => undefined),
    quarantine: new Quarantine(),
    logger: createLogger('error', 'bench'),
  });
  worker.start();
  const named = (at) => ({ input: { kind: 'path', path: `/srv/audio/calls/call-${at}.wav` } });
  for (let start = 0; start < jobs; start += 1_000) {
    const count = Math.min(1_000, jobs - start);
    await queue.addMany(Array.from({ length: count }, (_, at) => named(start + at)));
  }
  await ended;
  await worker.close();
}

async function measure(browser, url, [name, address, selector]) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const network = await context.newCDPSession(page);
  await network.send('Network.enable');
  let bytes = 0;
  network.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength;
  });
  const started = performance.now();
  await page.goto(url + address, { waitUntil: 'commit' });
  await page.locator(selector).waitFor({ state: 'attached' });
  const ms = performance.now() - started;
  await page.waitForLoadState('networkidle');
  await context.close();
  return { name, ms, bytes };
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

const folder = mkdtempSync(path.join(os.tmpdir(), 'wavepool-bench-'));
const redis = await EmbeddedRedis.acquire({
  ...readConfig(),
  dataDir: folder,
  runtimeDirs: [path.join(folder, 'run')],
});
const ending = new AbortController();
const services = await openServices({
  address: redis.address,
  models: [MODEL],
  resultsDir: path.join(folder, 'results'),
  uploadsDir: path.join(folder, 'uploads'),
  settings: { ...DEFAULT_SETTINGS, port: 0 },
  version: 'bench',
  logger: createLogger('silent', 'bench'),
  closing: ending.signal,
});
const server = await startServer(services);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
});
try {
  await finishJobs(redis.address, await services.queues.queueOf(MODEL));
  const results = [];
  for (let round = 0; round < rounds; round += 1) {
    for (const page of PAGES) results.push(await measure(browser, server.url, page));
  }
  const summary = PAGES.map(([name]) => {
    const own = results.filter((result) => result.name === name);
    return {
      page: name,
      ms: Math.round(median(own.map(({ ms }) => ms))),
      kB: Math.round(median(own.map(({ bytes }) => bytes)) / 1_000),
    };
  });
  if (values.json) {
    console.log(JSON.stringify({ jobs, rounds, pages: summary }));
  } else {
    console.log(`${jobs} finished jobs, ${rounds} rounds, ${os.cpus().length} cores`);
    console.table(summary);
  }
} finally {
  await browser.close();
  ending.abort();
  await server.close();
  await services.queues.close();
  await redis.release();
  rmSync(folder, { recursive: true, force: true });
}

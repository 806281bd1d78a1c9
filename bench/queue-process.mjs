/**
 * One worker process over jobs that take no time, as bench/parts/queue.mjs starts it. Settings (argument, JSON): address, model,
 * concurrency, kind:
 *
 *   bare     a BullMQ worker that tells one progress event and returns an outcome
 *   ours     our worker's machinery (locks, cancelling, clocks, quarantine, reports to the supervisor) around the same
 *   commit   the same, and each job ends by checking its lock and committing a result to `resultsDir`, durably
 *
 * IPC: → 'ready'; {type:'go'} → jobs are taken; → {seconds, cpuSeconds, jobs} when so many as `jobs` have ended; then it waits for its end.
 */
import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { createLogger } from '../dist/src/core/logger.js';
import { queueNameOf, queuePrefix } from '../dist/src/queue/redis/queue-names.js';
import { LocalResultStore } from '../dist/src/storage/local-result-store.js';
import { HeldJobs } from '../dist/src/worker/job/held-jobs.js';
import { ModelQueue } from '../dist/src/worker/job/model-queue.js';
import { Quarantine } from '../dist/src/worker/job/quarantine.js';

const settings = JSON.parse(process.argv[2]);
const { address, model, concurrency, kind, jobs, resultsDir } = settings;
const LOCK_DURATION_MS = 30_000;
const STALLED_INTERVAL_MS = 30_000;

const PROGRESS = { phase: 'running', processedSeconds: 1, totalSeconds: 1, segmentsDone: 1 };
const TIMINGS = { queuedMs: 1, decodeMs: 1, vadMs: 1, asrMs: 1, totalMs: 4 };
const OUTCOME = {
  resultKey: 'none',
  durationSeconds: 1,
  speechSeconds: 1,
  segments: 1,
  characters: 5,
  noSpeech: false,
  warnings: [],
  timings: TIMINGS,
};

/** A result of an ordinary clip: what a commit writes. */
function resultOf(jobId) {
  const text = 'it was the best of times it was the worst of times';
  return {
    schemaVersion: 1,
    jobId,
    task: 'transcribe',
    model,
    input: { name: 'clip.wav', path: '/audio/clip.wav', bytes: 160_044 },
    audio: { durationSeconds: 5, container: 'wav', codec: 'pcm', sampleRate: 16_000, channels: 1 },
    text,
    segments: [{ start: 0.4, end: 4.8, text }],
    noSpeech: false,
    warnings: [],
    timings: TIMINGS,
    build: 'bench',
    createdAt: new Date().toISOString(),
  };
}

let ended = 0;
let startedAt = 0;
let cpuBefore;

function countEnd() {
  ended += 1;
  if (ended !== jobs) return;
  const seconds = (performance.now() - startedAt) / 1000;
  const { user, system } = process.cpuUsage(cpuBefore);
  process.send({ type: 'done', jobs: ended, seconds, cpuSeconds: (user + system) / 1e6 });
}

function openBare() {
  // As BullMQ's own documentation has it: no connection of ours.
  const connection = new Redis({ path: address.path, maxRetriesPerRequest: null });
  const run = async (job) => {
    await job.updateProgress(PROGRESS);
    return OUTCOME;
  };
  const worker = new Worker(queueNameOf(model), run, {
    connection,
    prefix: queuePrefix(connection),
    autorun: false,
    concurrency,
    lockDuration: LOCK_DURATION_MS,
    stalledInterval: STALLED_INTERVAL_MS,
    maxStalledCount: 5,
  });
  worker.on('completed', countEnd);
  return {
    ready: () => worker.waitUntilReady(),
    start: () => void worker.run(),
    close: async () => {
      await worker.close();
      connection.disconnect();
    },
  };
}

async function openOurs() {
  const results = kind === 'commit' ? await LocalResultStore.open(resultsDir) : undefined;
  const processor = {
    process: async ({ jobId, onProgress, assertOwned }) => {
      onProgress(PROGRESS);
      if (results === undefined) return OUTCOME;
      await assertOwned();
      const { key } = await results.commit(jobId, resultOf(jobId));
      return { ...OUTCOME, resultKey: key };
    },
  };
  // The supervisor is told, as in a worker process.
  const report = (message) => process.connected && process.send(message);
  class CountedJobs extends HeldJobs {
    release(...job) {
      super.release(...job);
      countEnd();
    }
  }
  const queue = await ModelQueue.open({
    address,
    model,
    processor,
    held: new CountedJobs(report),
    quarantine: new Quarantine(),
    lockDurationMs: LOCK_DURATION_MS,
    stalledIntervalMs: STALLED_INTERVAL_MS,
    concurrency,
    longJobMs: 10_000,
    logger: createLogger('error', 'bench'),
  });
  return {
    ready: () => Promise.resolve(),
    start: () => queue.start(),
    close: () => queue.close(),
  };
}

const worker = kind === 'bare' ? openBare() : await openOurs();
await worker.ready();
process.on('message', async (message) => {
  if (message.type === 'go') {
    startedAt = performance.now();
    cpuBefore = process.cpuUsage();
    worker.start();
  } else {
    await worker.close();
    process.disconnect();
  }
});
process.send({ type: 'ready' });

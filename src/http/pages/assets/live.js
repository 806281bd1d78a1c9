/**
 * Where the pages get what changes. Pages ask here and nowhere else, so that it is decided in one place what is pushed by
 * the server and what is asked for; nothing is asked for while nobody looks.
 */
import { ApiError, call } from './api.js';

const FLEET_INTERVAL_MS = 2_000;
const JOB_INTERVAL_MS = 1_000;
/** While the server pushes, asking only catches what was lost. */
const PUSHED_JOB_INTERVAL_MS = 10_000;
const JOB_EVENTS = [
  'waiting',
  'delayed',
  'running',
  'progress',
  'stalled',
  'completed',
  'failed',
  'removed',
].map((name) => `job.${name}`);
const LIST_INTERVAL_MS = 5_000;
const MOST_FAILURES = 8;

/**
 * Loads again and again, one call at a time.
 * @param load gives what `show` gets; a failure goes to `fail` and is tried again
 * @returns `poke()` loads at once, `stop()` ends it
 */
function repeat(load, { show, fail, interval }) {
  const ended = new AbortController();
  let timer;
  let isLoading = false;
  let isPoked = false;
  const run = async () => {
    if (isLoading) {
      isPoked = true;
      return;
    }
    clearTimeout(timer);
    if (document.hidden || ended.signal.aborted) return;
    isLoading = true;
    isPoked = false;
    try {
      const value = await load(ended.signal);
      if (!ended.signal.aborted) show(value);
    } catch (error) {
      if (!ended.signal.aborted) fail(error);
    }
    isLoading = false;
    if (!ended.signal.aborted) timer = setTimeout(run, isPoked ? 250 : interval());
  };
  document.addEventListener('visibilitychange', run, { signal: ended.signal });
  void run();
  return {
    poke: () => void run(),
    stop: () => {
      clearTimeout(timer);
      ended.abort();
    },
  };
}

/** What workers tell of their models at once, and of slots with each heartbeat. */
const MODEL_EVENTS = ['model.changed', 'slot.changed'];

/** Workers, models with their queues, and the latest failures. */
export function watchFleet(show, fail) {
  let failures = [];
  let failedCount = -1;
  const load = async (signal) => {
    const [{ items: workers }, { data: models }] = await Promise.all([
      call('/v1/workers', { signal }),
      call('/v1/models', { signal }),
    ]);
    const failed = models.filter(({ queue }) => queue.failed > 0);
    const total = failed.reduce((sum, { queue }) => sum + queue.failed, 0);
    if (total !== failedCount) failures = await latestFailures(failed, signal);
    failedCount = total;
    return { workers, models, failures };
  };
  const loop = repeat(load, { show, fail, interval: () => FLEET_INTERVAL_MS });
  const stream = new EventSource(`/v1/events?types=${MODEL_EVENTS.join(',')}`);
  for (const name of MODEL_EVENTS) stream.addEventListener(name, loop.poke);
  return {
    ...loop,
    stop: () => {
      stream.close();
      loop.stop();
    },
  };
}

async function latestFailures(models, signal) {
  const pages = await Promise.all(
    models.map(({ id }) =>
      call(`/v1/jobs?state=failed&limit=${MOST_FAILURES}&model=${encodeURIComponent(id)}`, {
        signal,
      }),
    ),
  );
  return pages
    .flatMap(({ items }) => items)
    .sort((a, b) => (b.finishedAt ?? '').localeCompare(a.finishedAt ?? ''))
    .slice(0, MOST_FAILURES);
}

/** A page of jobs. */
export function watchJobs(query, show, fail) {
  const load = (signal) => call(`/v1/jobs?${query}`, { signal });
  return repeat(load, { show, fail, interval: () => LIST_INTERVAL_MS });
}

export function hasEnded({ state }) {
  return state === 'completed' || state === 'failed' || state === 'cancelled';
}

/** A job until it has ended, and its segments as they are recognized where the server tells them. */
export function watchJob(id, { onJob, onSegment, onFail }) {
  const address = `/v1/jobs/${encodeURIComponent(id)}`;
  const stream = new EventSource(`${address}/events`);
  const finish = () => {
    stream.close();
    loop.stop();
  };
  const loop = repeat((signal) => call(address, { signal }), {
    show: (job) => {
      onJob(job);
      if (hasEnded(job)) finish();
    },
    fail: (error) => {
      onFail(error);
      if (error instanceof ApiError && error.status === 404) finish();
    },
    interval: () =>
      stream.readyState === EventSource.OPEN ? PUSHED_JOB_INTERVAL_MS : JOB_INTERVAL_MS,
  });
  for (const name of JOB_EVENTS) stream.addEventListener(name, loop.poke);
  stream.addEventListener('job.segment', ({ data }) => onSegment(JSON.parse(data).segment));
  return { stop: finish };
}

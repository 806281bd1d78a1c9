/** What `status` shows to people. */
import type { ModelStatus, WorkerPresence } from '../../core/worker/status.ts';
import type { QueueOverview, RecentFailure, ServiceOverview } from '../../queue/fleet/overview.ts';
import { formatBytes, formatDuration } from './quantities.ts';
import { printable, shownPath } from './run-report.ts';
import { textTable } from './text-table.ts';

/** @param now milliseconds since 1970 */
export function describeStatus(overview: ServiceOverview, now: number, folder: string): string {
  const { queues, workers, failures } = overview;
  const parts = [queueTable(queues), workerTable(workers, now)];
  if (failures.length > 0) parts.push(failureTable(failures, now, folder));
  return parts.join('\n');
}

function queueTable(queues: readonly QueueOverview[]): string {
  if (queues.length === 0) return 'no queues yet: `wavepool enqueue` adds jobs\n';
  const head = ['queue', 'waiting', 'delayed', 'running', 'completed', 'failed', 'workers'];
  const body = queues.map(({ model, counts, workers }) => {
    const { waiting, delayed, running, completed, failed } = counts;
    const unserved = workers === 0 && waiting + delayed > 0;
    return [
      model,
      ...[waiting, delayed, running, completed, failed].map(String),
      unserved ? `none: \`wavepool worker --model ${model}\`` : String(workers),
    ];
  });
  return textTable([head, ...body]);
}

/** One line per worker and model; the worker's own columns on its first line. */
function workerTable(workers: readonly WorkerPresence[], now: number): string {
  if (workers.length === 0) return 'no workers\n';
  const head = [
    ...['worker', 'up', 'jobs', 'memory', 'model', 'state', 'generation', 'slots', 'waiting'],
    ...['managers', 'batch', '× real time', 'note'],
  ];
  const body = workers.flatMap((worker) => {
    const own = [
      `${printable(worker.host)}:${worker.pid}`,
      formatDuration(Math.max(0, now - worker.startedAt) / 1_000),
      String(worker.heldJobs),
      formatBytes(worker.residentBytes),
    ];
    return worker.runtime.models.map((model, at) => [
      ...(at === 0 ? own : own.map(() => '')),
      ...modelCells(model, worker),
    ]);
  });
  return textTable([head, ...body]);
}

function modelCells(model: ModelStatus, worker: WorkerPresence): string[] {
  const { batches } = model;
  const most = worker.models.find(({ id }) => id === model.id)?.batch;
  const average = averageBatch(batches.batchSizes);
  const batch = average === undefined ? '–' : average.toFixed(1);
  return [
    model.id,
    model.state,
    String(model.generation),
    `${model.activeSlots}/${model.slots}`,
    String(model.queuedRequests),
    String(model.waitingManagers),
    most === undefined ? batch : `${batch} of ${most}`,
    batches.busyMs > 0 ? ((1_000 * batches.audioSeconds) / batches.busyMs).toFixed(1) : '–',
    model.failure === null ? '' : `${printable(model.failure.message)} [${model.failure.code}]`,
  ];
}

/** Items of a batch, over all that have ended. */
export function averageBatch(batchSizes: readonly number[]): number | undefined {
  const batches = batchSizes.reduce((sum, count) => sum + count, 0);
  const items = batchSizes.reduce((sum, count, at) => sum + count * (at + 1), 0);
  return batches === 0 ? undefined : items / batches;
}

function failureTable(failures: readonly RecentFailure[], now: number, folder: string): string {
  const rows = failures.map(({ id, model, failedAt, input, code, message }) => [
    `${formatDuration(Math.max(0, now - failedAt) / 1_000)} ago`,
    model,
    id,
    input === undefined ? '' : shownPath(input, folder),
    `${printable(message)} [${code}]`,
  ]);
  return textTable([['failed', 'model', 'job', 'input', 'reason'], ...rows]);
}

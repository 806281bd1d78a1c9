/** `wavepool status`: queues, workers, models, slots and what failed lately, once or live. */
import { setTimeout as delay } from 'node:timers/promises';
import { type Command, Option } from 'commander';
import { WavepoolError } from '../../core/errors.ts';
import type { ModelStatus, WorkerPresence } from '../../core/worker/status.ts';
import {
  type QueueOverview,
  type RecentFailure,
  readOverview,
  type ServiceOverview,
} from '../../queue/fleet/overview.ts';
import { withConnection } from '../access/redis-access.ts';
import { addQueueOptions, type PlaceOptions, parseCount } from '../options/options.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import { watchInterrupts } from '../terminal/interrupts.ts';
import { formatBytes, formatDuration, printable, shownPath, textTable } from '../terminal/text.ts';

const REFRESH_MS = 2_000;
const CLEAR_SCREEN = '\u001b[2J\u001b[H';

interface StatusOptions extends PlaceOptions {
  readonly json?: true;
  readonly watch?: true;
  readonly failures: number;
}

const HELP = `
batch is the average of those that have ended, of the most that fit. × real time is audio over the time in which a slot has
worked: what one slot achieves.

Exit codes: 0 shown, 2 usage, 3 this machine or its services.`;

export function addStatusCommand(program: Command, context: CliContext): void {
  const command = program
    .command('status')
    .description('show queues, workers, models, slots and recent failures')
    .option('--watch', 'show it again and again, until Ctrl-C')
    .addOption(
      new Option('--failures <n>', 'how many recent failures')
        .argParser(parseCount(100))
        .default(5),
    )
    .option('--json', 'print one JSON object on stdout, with --watch one per line');
  addQueueOptions(command)
    .addHelpText('after', HELP)
    .action(async (options: StatusOptions) => {
      await status(options, context);
    });
}

async function status(options: StatusOptions, context: CliContext): Promise<void> {
  await withConnection(options, context, async (connection) => {
    const show = async (): Promise<void> => {
      const overview = await readOverview(connection, options.failures);
      const now = Date.now();
      if (options.json === true)
        printLine(context.stdout, JSON.stringify({ at: now, ...overview }));
      else context.stdout.write(describeStatus(overview, now, process.cwd()));
    };
    if (options.watch === true) await showAgainAndAgain(show, options, context);
    else await show();
  });
}

async function showAgainAndAgain(
  show: () => Promise<void>,
  options: StatusOptions,
  context: CliContext,
): Promise<void> {
  using watch = watchInterrupts(context, { onFirst: () => undefined });
  const clears = context.stdout.isTTY === true && options.json !== true;
  while (!watch.signal.aborted) {
    if (clears) context.stdout.write(CLEAR_SCREEN);
    try {
      await show();
    } catch (error) {
      const isAway = error instanceof WavepoolError && error.code === 'REDIS_UNAVAILABLE';
      if (!isAway) throw error;
      printLine(context.stderr, `${error.message}; trying again`);
    }
    await delay(REFRESH_MS, undefined, { signal: watch.signal }).catch(() => undefined);
  }
}

/** @param now milliseconds since 1970 */
function describeStatus(overview: ServiceOverview, now: number, folder: string): string {
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
function averageBatch(batchSizes: readonly number[]): number | undefined {
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

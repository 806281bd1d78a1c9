/** `wavepool jobs`: looks at single jobs, cancels and retries them. */
import { type Command, Option } from 'commander';
import type { Config } from '../../core/config.ts';
import { WavepoolError } from '../../core/errors.ts';
import { parseJobId } from '../../core/job/job.ts';
import { AudioQueue } from '../../queue/audio-queue.ts';
import { JOB_STATES, type JobState, type JobView } from '../../queue/jobs/job-view.ts';
import { readKnownModels } from '../../queue/jobs/known-models.ts';
import { describeInput } from '../../storage/inputs.ts';
import { RedisAccess, withConnectionTo } from '../access/redis-access.ts';
import {
  addQueueOptions,
  type PlaceOptions,
  parseCount,
  parseListOf,
  placesOf,
} from '../options/options.ts';
import { type CliContext, EXIT, printLine } from '../terminal/context.ts';
import { formatDuration, printable, shownPath, textTable } from '../terminal/text.ts';

interface JobsOptions extends PlaceOptions {
  readonly model?: string;
  readonly json?: true;
}

interface ListOptions extends JobsOptions {
  readonly state?: JobState[];
  readonly limit: number;
}

export function addJobsCommand(program: Command, context: CliContext): void {
  const jobs = program.command('jobs').description('look at jobs, cancel and retry them');
  addList(jobs, context);
  addShow(jobs, context);
  addChange(jobs, context, {
    name: 'cancel',
    description: 'end waiting jobs now, and ask the workers of running ones to stop',
    change: async (queue, id) => {
      const result = await queue.cancel(id);
      return { result, ok: result !== 'finished' };
    },
  });
  addChange(jobs, context, {
    name: 'retry',
    description: 'run failed and cancelled jobs once more, with all their attempts',
    change: async (queue, id) => {
      const ok = await queue.retry(id);
      return { result: ok ? 'waiting' : 'not failed', ok };
    },
  });
}

function addSharedOptions(command: Command): Command {
  return addQueueOptions(
    command
      .option('--model <id>', 'look in this queue only')
      .option('--json', 'print one JSON object on stdout'),
  );
}

function addList(jobs: Command, context: CliContext): void {
  const command = jobs
    .command('list')
    .description('show jobs, those that changed last first')
    .addOption(
      new Option('--state <list>', `comma-separated: ${JOB_STATES.join(', ')}`).argParser(
        parseListOf(JOB_STATES),
      ),
    )
    .addOption(
      new Option('--limit <n>', 'how many of each queue').argParser(parseCount(10_000)).default(20),
    );
  addSharedOptions(command).action(async (options: ListOptions) => {
    await using queues = await openQueues(placesOf(context.config, options), options.model);
    const views: JobView[] = [];
    for (const queue of queues.all)
      views.push(...(await queue.list({ states: options.state, limit: options.limit })));
    if (options.json === true) printLine(context.stdout, JSON.stringify({ jobs: views }));
    else context.stdout.write(jobTable(views, Date.now(), process.cwd()));
  });
}

function addShow(jobs: Command, context: CliContext): void {
  const command = jobs
    .command('show')
    .description('show everything about a job')
    .argument('<id>', 'as `wavepool enqueue` printed it');
  addSharedOptions(command).action(async (id: string, options: JobsOptions) => {
    await using queues = await openQueues(placesOf(context.config, options), options.model);
    const { view } = await find(queues, id);
    if (options.json === true) printLine(context.stdout, JSON.stringify(view));
    else context.stdout.write(describeJob(view));
  });
}

interface Change {
  readonly name: string;
  readonly description: string;
  /** `ok` is false when the job was in no state for it. */
  readonly change: (queue: AudioQueue, id: string) => Promise<{ result: string; ok: boolean }>;
}

interface Changed {
  readonly id: string;
  readonly result: string;
}

function addChange(
  jobs: Command,
  context: CliContext,
  { name, description, change }: Change,
): void {
  const command = jobs
    .command(name)
    .description(description)
    .argument('<id...>', 'as `wavepool enqueue` printed them');
  addSharedOptions(command).action(async (ids: string[], options: JobsOptions) => {
    await using queues = await openQueues(placesOf(context.config, options), options.model);
    const changed: Changed[] = [];
    for (const id of ids) {
      const { result, ok } = await changeOne(queues, id, change);
      if (!ok) context.exitCode = EXIT.someFailed;
      changed.push({ id, result });
      if (options.json !== true) printLine(context.stdout, `${id}: ${result}`);
    }
    if (options.json === true) printLine(context.stdout, JSON.stringify({ jobs: changed }));
  });
}

/** One unknown job does not keep the others from being changed. */
async function changeOne(queues: Queues, id: string, change: Change['change']) {
  try {
    const { queue } = await find(queues, id);
    return await change(queue, id);
  } catch (error) {
    if (!(error instanceof WavepoolError) || error.code !== 'JOB_NOT_FOUND') throw error;
    return { result: error.message, ok: false };
  }
}

/** @throws {WavepoolError} JOB_NOT_FOUND, INVALID_REQUEST */
async function find(queues: Queues, id: string): Promise<{ queue: AudioQueue; view: JobView }> {
  const jobId = parseJobId(id);
  for (const queue of queues.all) {
    const view = await queue.get(jobId);
    if (view !== undefined) return { queue, view };
  }
  throw new WavepoolError('JOB_NOT_FOUND', id);
}

interface Queues extends AsyncDisposable {
  readonly all: readonly AudioQueue[];
}

/**
 * The queues that a command looks through.
 * @param model the only one; without it every model that has had a job
 * @throws {WavepoolError} INVALID_REQUEST, REDIS_MISSING, REDIS_UNAVAILABLE, REDIS_UNSUITABLE
 */
async function openQueues(config: Config, model: string | undefined): Promise<Queues> {
  const redis = await RedisAccess.open(config);
  const all: AudioQueue[] = [];
  const close = async (): Promise<void> => {
    for (const queue of all) await queue.close();
    await redis[Symbol.asyncDispose]();
  };
  try {
    const { address } = redis;
    const models = model === undefined ? await withConnectionTo(address, readKnownModels) : [model];
    for (const each of models) all.push(await AudioQueue.open({ address, model: each }));
    return { all, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** @param now milliseconds since 1970 */
function jobTable(views: readonly JobView[], now: number, folder: string): string {
  if (views.length === 0) return 'no jobs\n';
  const rows = views.map((view) => [
    view.id,
    view.data.model,
    view.state,
    `${formatDuration(Math.max(0, now - view.data.submittedAt) / 1_000)} ago`,
    shownPath(inputOf(view), folder),
    noteOf(view),
  ]);
  return textTable([['job', 'model', 'state', 'submitted', 'input', 'note'], ...rows]);
}

function noteOf({ failure, progress, outcome }: Pick<JobView, 'failure' | 'progress' | 'outcome'>) {
  if (failure !== undefined) return `${printable(failure.message)} [${failure.code}]`;
  if (outcome !== undefined) return `${formatDuration(outcome.durationSeconds)} of audio`;
  if (progress === undefined) return '';
  const { processedSeconds, totalSeconds } = progress;
  const total = totalSeconds === null ? '' : ` of ${formatDuration(totalSeconds)}`;
  return `${formatDuration(processedSeconds)}${total}`;
}

/** Everything about one job, a line each. */
function describeJob(view: JobView): string {
  const { data, failure, outcome } = view;
  const rows: [string, string | undefined][] = [
    ['job', view.id],
    ['model', data.model],
    ['state', view.state],
    ['input', printable(inputOf(view))],
    ['tenant', data.tenant],
    ['priority', String(view.priority)],
    ['attempts', String(view.attemptsMade)],
    ['crashes', data.crashCount > 0 ? String(data.crashCount) : undefined],
    ['submitted', timeOf(data.submittedAt)],
    ['started', timeOf(view.startedAt)],
    ['finished', timeOf(view.finishedAt)],
    ['deadline', timeOf(data.clocks.deadlineAt)],
    ['progress', outcome === undefined ? noteOf({ ...view, failure: undefined }) : undefined],
    ['audio', outcome && formatDuration(outcome.durationSeconds)],
    ['segments', outcome && String(outcome.segments)],
    ['waited', outcome && formatDuration(outcome.timings.queuedMs / 1_000)],
    ['ran', outcome && formatDuration(outcome.timings.totalMs / 1_000)],
    ['result', outcome?.resultKey],
    ['warnings', outcome?.warnings.join(', ')],
    ['failure', failure && `${printable(failure.message)} [${failure.code}]`],
  ];
  return textTable(
    rows.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [[name, value]])),
  );
}

function inputOf({ data: { input } }: JobView): string {
  return describeInput(input);
}

function timeOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

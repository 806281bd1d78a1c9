/** `wavepool jobs`: looks at single jobs, cancels and retries them. */
import type { Command } from 'commander';
import { InvalidArgumentError, Option } from 'commander';
import { WavepoolError } from '../../core/errors.ts';
import { parseJobId } from '../../core/job/job.ts';
import type { AudioQueue } from '../../queue/audio-queue.ts';
import { JOB_STATES, type JobState, type JobView } from '../../queue/jobs/job-view.ts';
import type { CliContext } from '../context.ts';
import { printLine } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import { openQueues, type Queues } from '../known-queues.ts';
import type { PlaceOptions } from '../options/options.ts';
import { addQueueOptions, parseCount, placesOf } from '../options/options.ts';
import { describeJob, jobTable } from '../output/job-report.ts';

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
        parseStates,
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

function parseStates(text: string): JobState[] {
  const names = text.split(',').map((name) => name.trim());
  return names.map((name) => {
    const state = JOB_STATES.find((one) => one === name);
    if (state === undefined)
      throw new InvalidArgumentError(`Use a list of ${JOB_STATES.join(', ')}.`);
    return state;
  });
}

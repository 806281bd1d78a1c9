/** `wavepool schedules`: jobs that come again and again. */
import path from 'node:path';
import { type Command, Option } from 'commander';
import { WavepoolError } from '../../core/errors.ts';
import type { RawAudioFormat } from '../../core/job/job.ts';
import { ScheduleStore, type ScheduleView } from '../../queue/schedules.ts';
import { inputName } from '../../storage/inputs.ts';
import { withConnection } from '../access/redis-access.ts';
import { addEffortOptions, type EffortOptions, effortOf } from '../options/effort-options.ts';
import {
  addInputFormatOption,
  addQueueOptions,
  type PlaceOptions,
  parseDuration,
} from '../options/options.ts';
import { addTaskOptions, type TaskOptions, taskChoiceOf } from '../options/task-options.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import { formatDuration, printable, textTable } from '../terminal/text.ts';

interface AddOptions extends PlaceOptions, TaskOptions, EffortOptions {
  readonly cron?: string;
  readonly timezone?: string;
  readonly every?: number;
  readonly deadline?: number;
  readonly inputFormat?: RawAudioFormat;
}

type ListOptions = PlaceOptions & { readonly json?: true };

const HELP = `
A server or a worker adds the jobs when they come due, as \`schedule-ID-TIME\`; what came due while none was there is added once.
The input is read each time.`;

export function addSchedulesCommand(program: Command, context: CliContext): void {
  const schedules = program.command('schedules').description('jobs that come again and again');
  addQueueOptions(schedules.command('list'))
    .description('show schedules, those that come due first first')
    .option('--json', 'print one JSON array on stdout')
    .action((options: ListOptions) => list(options, context));
  const add = schedules
    .command('add')
    .description('add a schedule, or put it in the place of the one of that id')
    .argument('<id>', 'a-z, 0-9, ".", "_", "-"')
    .argument('<input>', 'a file, or an http(s) URL')
    .option('--cron <fields>', 'minute hour day month weekday, such as "0 3 * * *"')
    .option('--timezone <name>', 'of --cron, such as Europe/Berlin (default: UTC)')
    .addOption(new Option('--every <time>', 'again after so much time').argParser(parseDuration))
    .addOption(
      new Option('--deadline <time>', 'end within this time, waiting included').argParser(
        parseDuration,
      ),
    );
  addEffortOptions(add);
  addTaskOptions(add);
  addInputFormatOption(add);
  addQueueOptions(add)
    .addHelpText('after', HELP)
    .action((id: string, input: string, options: AddOptions) =>
      addSchedule(id, input, options, context),
    );
  addQueueOptions(schedules.command('remove'))
    .description('end a schedule; jobs that it has added stay')
    .argument('<id>')
    .action((id: string, options: PlaceOptions) => remove(id, options, context));
}

async function addSchedule(
  id: string,
  input: string,
  options: AddOptions,
  context: CliContext,
): Promise<void> {
  const { cron, timezone, every, deadline, inputFormat: rawFormat } = options;
  const { model, job } = taskChoiceOf(options);
  const source = /^https?:\/\//.test(input)
    ? ({ kind: 'url', url: input, name: nameOf(input), rawFormat } as const)
    : ({ kind: 'path', path: path.resolve(input), rawFormat } as const);
  const view = await withSchedules(options, context, (schedules) =>
    schedules.set({
      ...{ id, model, cron, timezone, everyMs: every, deadlineMs: deadline },
      job: { ...job, ...effortOf(options), input: source },
    }),
  );
  printLine(context.stderr, `schedule ${id}: next at ${timeOf(view)}`);
}

async function list(options: ListOptions, context: CliContext): Promise<void> {
  const views = await withSchedules(options, context, (schedules) => schedules.list());
  if (options.json === true) {
    printLine(context.stdout, JSON.stringify(views));
    return;
  }
  const rows = views.map((view) => [
    view.id,
    view.cron === undefined
      ? `every ${formatDuration((view.everyMs ?? 0) / 1_000)}`
      : `${view.cron} (${view.timezone ?? 'UTC'})`,
    timeOf(view),
    view.scheduled.model,
    printable(view.scheduled.job.tenant),
    printable(inputOf(view)),
  ]);
  context.stdout.write(textTable([['ID', 'WHEN', 'NEXT', 'MODEL', 'TENANT', 'INPUT'], ...rows]));
}

async function remove(id: string, options: PlaceOptions, context: CliContext): Promise<void> {
  const removed = await withSchedules(options, context, (schedules) => schedules.remove(id));
  if (!removed) throw new WavepoolError('INVALID_REQUEST', `there is no schedule ${id}`);
  printLine(context.stderr, `schedule ${id} is ended`);
}

function withSchedules<Result>(
  options: PlaceOptions,
  context: CliContext,
  use: (schedules: ScheduleStore) => Promise<Result>,
): Promise<Result> {
  return withConnection(options, context, async (connection) => {
    await using schedules = new ScheduleStore(connection);
    return await use(schedules);
  });
}

function timeOf({ nextAt }: ScheduleView): string {
  return nextAt === undefined ? '–' : new Date(nextAt).toISOString();
}

function inputOf({ scheduled }: ScheduleView): string {
  const { input } = scheduled.job;
  return input.kind === 'path' ? input.path : inputName(input);
}

function nameOf(url: string): string {
  return path.posix.basename(new URL(url).pathname) || new URL(url).host;
}

/** `wavepool models load`, `unload` and `reconfigure`: the models of workers that run. */
import { type Command, Option } from 'commander';
import { isErrorCode, WavepoolError } from '../../core/errors.ts';
import type {
  ControlCommandInput,
  ControlOutcome,
  ModelSettings,
} from '../../core/worker/control.ts';
import type { WorkerPresence } from '../../core/worker/status.ts';
import { type ControlTargets, FleetControl } from '../../queue/fleet/control.ts';
import { readPresence } from '../../queue/fleet/presence.ts';
import { withConnection } from '../access/redis-access.ts';
import { MAX_BATCH, MAX_SLOTS, MAX_THREADS } from '../capacity/capacity-options.ts';
import {
  addQueueOptions,
  collect,
  type PlaceOptions,
  parseCount,
  parseDuration,
} from '../options/options.ts';
import { type CliContext, EXIT, type ExitCode, exitCodeOf } from '../terminal/context.ts';
import { isInterruption, watchInterrupts } from '../terminal/interrupts.ts';
import { printable, textTable } from '../terminal/text.ts';

interface ControlOptions extends PlaceOptions {
  readonly worker: string[];
  readonly all?: true;
  readonly timeout: number;
  readonly json?: true;
}

interface SettingsOptions {
  readonly slots?: number;
  readonly batch?: number;
  readonly threads?: number;
  readonly busyTimeout?: number;
}

const EXIT_CODES = `
Ctrl-C takes back what no worker has begun.

Exit codes: 0 done by every worker, 1 by some, 2 usage, 3 by none, or this machine or its services, 130 interrupted.`;

const LOAD_HELP = `
The workers that have the model load it; with --slots and the like it is reconfigured. When none has it, every worker takes
it from its models directory and serves its queue from then on.
${EXIT_CODES}`;

const UNLOAD_HELP = `
What was asked of a model before ends first. The workers go on to serve its queue: the next job loads it again. Of several
models the idle ones are freed first.
${EXIT_CODES}`;

const RECONFIGURE_HELP = `
What was asked of the model before ends on the old configuration, what comes later runs on the new one. Settings that are
left out keep their values, or with --replace fall back to what the worker was started with. With --strategy load-first the
old configuration stays when the new one fails; both are in memory for a moment.
${EXIT_CODES}`;

export function addControlCommands(models: Command, context: CliContext): void {
  const load = models
    .command('load')
    .description('load a model in workers that run')
    .argument('<id>', 'as `wavepool models list` shows it');
  addSettings(load);
  addTargets(load)
    .addHelpText('after', LOAD_HELP)
    .action(async (model: string, options: ControlOptions & SettingsOptions) => {
      const settings = settingsOf(options);
      await control({ operation: 'load', model, settings }, options, context);
    });

  const unload = models
    .command('unload')
    .description('free the memory of models in workers that run')
    .argument('[id...]', 'as `wavepool status` shows them')
    .option('--all-models', 'every model that is in memory');
  addTargets(unload)
    .addHelpText('after', UNLOAD_HELP)
    .action(async (ids: string[], options: ControlOptions & { readonly allModels?: true }) => {
      await control(unloadOf(ids, options.allModels === true), options, context);
    });

  const reconfigure = models
    .command('reconfigure')
    .description('change how a model runs in workers that run')
    .argument('<id>', 'as `wavepool status` shows it')
    .option('--replace', 'settings that are left out fall back to their defaults')
    .addOption(
      new Option('--strategy <name>', 'what happens to the old configuration first')
        .choices(['retire-first', 'load-first'])
        .default('retire-first'),
    );
  addSettings(reconfigure);
  addTargets(reconfigure)
    .addHelpText('after', RECONFIGURE_HELP)
    .action(async (model: string, options: ReconfigureOptions) => {
      const { replace = false, strategy } = options;
      const settings = settingsOf(options);
      const command = { operation: 'reconfigure', model, settings, replace, strategy } as const;
      await control(command, options, context);
    });
}

interface ReconfigureOptions extends ControlOptions, SettingsOptions {
  readonly replace?: true;
  readonly strategy: 'retire-first' | 'load-first';
}

function addSettings(command: Command): Command {
  return command
    .addOption(new Option('--slots <n>', 'sessions of the model').argParser(parseCount(MAX_SLOTS)))
    .addOption(
      new Option('--batch <n>', 'segments computed together by one slot').argParser(
        parseCount(MAX_BATCH),
      ),
    )
    .addOption(
      new Option('--threads <n>', 'compute threads of one slot').argParser(parseCount(MAX_THREADS)),
    )
    .addOption(
      new Option(
        '--busy-timeout <time>',
        'longest wait for a slot, such as 30s; 0 has no end',
      ).argParser(parseDuration),
    );
}

function addTargets(command: Command): Command {
  command
    .addOption(
      new Option('--worker <id>', 'only this one: its id, or HOST:PID (repeatable)')
        .argParser(collect)
        .default([], 'those that have the model'),
    )
    .addOption(new Option('--all', 'every worker').conflicts('worker'))
    .addOption(
      new Option('--timeout <time>', 'for the answers; 0 has no end')
        .argParser(parseDuration)
        .default(0, 'none'),
    );
  return addQueueOptions(command).option('--json', 'print one JSON object on stdout');
}

function settingsOf({ slots, batch, threads, busyTimeout }: SettingsOptions): ModelSettings {
  return {
    ...(slots === undefined ? {} : { slots }),
    ...(batch === undefined ? {} : { batch }),
    ...(threads === undefined ? {} : { threads }),
    ...(busyTimeout === undefined ? {} : { busyTimeoutMs: busyTimeout }),
  };
}

/** @throws {WavepoolError} INVALID_REQUEST */
function unloadOf(ids: readonly string[], all: boolean): ControlCommandInput {
  if (all === ids.length > 0) {
    throw new WavepoolError('INVALID_REQUEST', 'name models, or give --all-models');
  }
  const [model] = ids;
  if (model !== undefined && ids.length === 1) return { operation: 'unload', model };
  return { operation: 'unload-many', models: all ? 'all' : [...ids] };
}

async function control(
  command: ControlCommandInput,
  options: ControlOptions,
  context: CliContext,
): Promise<void> {
  using watch = watchInterrupts(context, { onFirst: () => undefined });
  const { signal } = watch;
  const { timeout: timeoutMs } = options;
  try {
    const outcomes = await withConnection(
      options,
      context,
      async (connection, address) => {
        const workers = targetsOf(options, await readPresence(connection));
        const control = new FleetControl({ address, connection });
        return control.send(command, { workers, timeoutMs, signal });
      },
      signal,
    );
    const text = options.json === true ? jsonOf(outcomes) : describeOutcomes(outcomes);
    context.stdout.write(text);
    context.exitCode = exitCodeOfControl(outcomes);
  } catch (error) {
    if (!isInterruption(error, watch)) throw error;
    context.exitCode = EXIT.interrupted;
  }
}

/** @throws {WavepoolError} NO_WORKER */
function targetsOf(
  { worker: wanted, all }: ControlOptions,
  present: readonly WorkerPresence[],
): ControlTargets {
  if (all === true) return 'all';
  if (wanted.length === 0) return 'concerned';
  return wanted.map((text) => {
    const fitting = present.filter(
      ({ id, host, pid }) => id.startsWith(text) || `${host}:${pid}` === text,
    );
    const [found] = fitting;
    if (found !== undefined && fitting.length === 1) return found.id;
    throw new WavepoolError(
      'NO_WORKER',
      found === undefined ? text : `${text} fits ${fitting.length} workers`,
    );
  });
}

function jsonOf(outcomes: readonly ControlOutcome[]): string {
  return `${JSON.stringify({ outcomes })}\n`;
}

function describeOutcomes(outcomes: readonly ControlOutcome[]): string {
  const rows = outcomes.flatMap((outcome): string[][] => {
    const worker = `${printable(outcome.host)}:${outcome.pid}`;
    if (!outcome.ok) {
      const { code, message } = outcome.error;
      return [[worker, '–', 'not done', '–', `${printable(message)} [${code}]`]];
    }
    return [
      ...outcome.models.map(({ id, state, generation, reconfigured }) => [
        worker,
        id,
        state,
        String(generation),
        reconfigured ? 'reconfigured' : '',
      ]),
      ...outcome.notFound.map((id) => [worker, id, 'unknown', '–', 'this worker does not have it']),
    ];
  });
  return textTable([['worker', 'model', 'state', 'generation', 'note'], ...rows]);
}

function exitCodeOfControl(outcomes: readonly ControlOutcome[]): ExitCode {
  const failures = outcomes.flatMap((outcome) => (outcome.ok ? [] : [outcome.error]));
  const [first] = failures;
  if (first === undefined) return EXIT.done;
  if (failures.length < outcomes.length) return EXIT.someFailed;
  const code = isErrorCode(first.code) ? first.code : 'INTERNAL';
  return exitCodeOf(new WavepoolError(code, first.message));
}

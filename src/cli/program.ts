/** The `wavepool` command line: its commands, and how a command line becomes an exit code. */
import { Command, CommanderError } from 'commander';
import { packageVersion } from '../core/package-version.ts';
import type { CliContext } from './context.ts';
import type { DoctorProbes } from './doctor/doctor-checks.ts';
import type { ExitCode } from './exit-codes.ts';
import { EXIT, exitCodeOf } from './exit-codes.ts';
import { DEFAULT_MODEL } from './options/options.ts';
import { reportFailure } from './output/failure-report.ts';

export interface ProgramServices {
  /** See `DoctorProbes`. */
  readonly loadAddon: (config: CliContext['config']) => Promise<string>;
}

type AddCommand = (program: Command, context: CliContext, services: ProgramServices) => void;

/** In the order of the help. Each brings its own part of the product, so only the one that is wanted is loaded. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  run: async () => (await import('./commands/run-command.ts')).addRunCommand,
  watch: async () => (await import('./commands/watch-command.ts')).addWatchCommand,
  worker: async () => (await import('./commands/worker-command.ts')).addWorkerCommand,
  serve: async () => (await import('./commands/serve-command.ts')).addServeCommand,
  live: async () => (await import('./commands/live-command.ts')).addLiveCommand,
  keys: async () => (await import('./commands/keys-command.ts')).addKeysCommand,
  enqueue: async () => (await import('./commands/enqueue-command.ts')).addEnqueueCommand,
  jobs: async () => (await import('./commands/jobs-command.ts')).addJobsCommand,
  webhooks: async () => (await import('./commands/webhooks-command.ts')).addWebhooksCommand,
  schedules: async () => (await import('./commands/schedules-command.ts')).addSchedulesCommand,
  tenants: async () => (await import('./commands/tenants-command.ts')).addTenantsCommand,
  limits: async () => (await import('./commands/limits-command.ts')).addLimitsCommand,
  status: async () => (await import('./commands/status-command.ts')).addStatusCommand,
  models: async () => (await import('./commands/models-command.ts')).addModelsCommand,
  framework: async () => (await import('./commands/framework-command.ts')).addFrameworkCommand,
  bench: async () => (await import('./commands/bench-command.ts')).addBenchCommand,
  doctor: async () => {
    const { addDoctorCommand } = await import('./commands/doctor-command.ts');
    return (program, context, services) =>
      addDoctorCommand(program, context, (config) => probesOf(config, context, services));
  },
};

/** @param wanted the command to be loaded; all of them when it is none */
async function buildProgram(
  wanted: string | undefined,
  context: CliContext,
  services: ProgramServices,
): Promise<Command> {
  const program = new Command('wavepool')
    .description('durable batch processing of audio on your own hardware')
    .version(packageVersion())
    .showHelpAfterError('(wavepool --help, or wavepool COMMAND --help, shows how)')
    .configureOutput({
      writeOut: (text) => context.stdout.write(text),
      writeErr: (text) => context.stderr.write(text),
    })
    .exitOverride();
  const one =
    wanted !== undefined && Object.hasOwn(COMMANDS, wanted) ? COMMANDS[wanted] : undefined;
  const loaders = one === undefined ? Object.values(COMMANDS) : [one];
  for (const load of loaders) (await load())(program, context, services);
  return program;
}

/** Runs one command line; `argv` without the program's own name. Never rejects. */
export async function runCommandLine(
  argv: readonly string[],
  context: CliContext,
  services: ProgramServices,
): Promise<ExitCode> {
  try {
    const program = await buildProgram(argv[0], context, services);
    await program.parseAsync(argv, { from: 'user' });
    return context.exitCode;
  } catch (error) {
    // Commander has printed its message or the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    reportFailure(context, error);
    return exitCodeOf(error);
  }
}

function probesOf(
  config: CliContext['config'],
  context: CliContext,
  services: ProgramServices,
): DoctorProbes {
  return {
    config,
    loadAddon: () => services.loadAddon(config),
    missingModels: () => missingModels(config, context),
  };
}

async function missingModels(config: CliContext['config'], context: CliContext): Promise<string[]> {
  const { DETECTOR_MODEL, openModels } = await import('./model-access.ts');
  const needed: readonly string[] = [DEFAULT_MODEL, DETECTOR_MODEL];
  const listed = await openModels(config, context).list();
  return listed
    .filter(({ entry, state }) => needed.includes(entry.id) && state !== 'installed')
    .map(({ entry }) => entry.id);
}

/** The `wavepool` command line: its commands, and how a command line becomes an exit code. */
import { Command, CommanderError } from 'commander';
import { type ErrorCode, WavepoolError } from '../core/errors.ts';
import { packageVersion } from '../core/package-version.ts';
import type { DoctorServices } from './commands/doctor-command.ts';
import { type CliContext, EXIT, type ExitCode, exitCodeOf, printLine } from './terminal/context.ts';

type AddCommand = (program: Command, context: CliContext, services: DoctorServices) => void;

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
  doctor: async () => (await import('./commands/doctor-command.ts')).addDoctorCommand,
};

/** @param wanted the command to be loaded; all of them when it is none */
async function buildProgram(
  wanted: string | undefined,
  context: CliContext,
  services: DoctorServices,
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
  services: DoctorServices,
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

/** What a person at the terminal can do. Codes without a line explain themselves. */
const WAYS_OUT: Partial<Record<ErrorCode, string>> = {
  ADDON_MISSING:
    '`wavepool doctor --build` compiles it; in a checkout `npm run quickstart` does all set-up',
  CPU_UNSUPPORTED: 'use a machine with an x86-64-v3 processor (2013 or newer)',
  CAPACITY_UNVALIDATED:
    'use --slots auto, or --unvalidated-slots N to try a count at your own risk',
  FFMPEG_MISSING: 'install ffmpeg; `wavepool doctor` shows the command',
  INSUFFICIENT_MEMORY: 'use fewer --slots, --workers or a smaller --batch',
  MODEL_DOWNLOAD_FAILED:
    'the same command goes on where it stopped; a file fetched elsewhere goes in with `wavepool models import FILE`',
  MODEL_FILE_INVALID:
    'a model that is installed is repaired by `wavepool models remove ID` and `wavepool models pull ID`',
  MODEL_UNKNOWN: '`wavepool models list` shows the models there are',
  NO_WORKER: '`wavepool status` shows the workers there are; start one with `wavepool worker`',
  OUTPUT_BUSY: 'wait for the other run to end, or choose another --out',
  REDIS_UNAVAILABLE: 'check that the server of --redis runs and can be reached',
  STORAGE_UNSUITABLE: 'docs/operations.md says under "Shared storage" what a bucket must do',
  STORAGE_FULL:
    'make room or check the permissions, then run the same command: it goes on where it was',
};

/** Says what went wrong and what to do about it. */
function reportFailure(context: CliContext, error: unknown): void {
  if (!(error instanceof WavepoolError)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    printLine(context.stderr, `wavepool: unexpected error: ${text}`);
    return;
  }
  printLine(context.stderr, `wavepool: ${error.message} [${error.code}]`);
  const wayOut = WAYS_OUT[error.code];
  if (wayOut !== undefined) printLine(context.stderr, `  ${wayOut}`);
}

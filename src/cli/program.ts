/** The `wavepool` command line: its commands, and how a command line becomes an exit code. */
import { Command, CommanderError } from 'commander';
import { packageVersion } from '../core/package-version.ts';
import { addBenchCommand } from './bench-command.ts';
import type { CliContext } from './context.ts';
import type { DoctorProbes } from './doctor-checks.ts';
import { addDoctorCommand } from './doctor-command.ts';
import { addEnqueueCommand } from './enqueue-command.ts';
import type { ExitCode } from './exit-codes.ts';
import { EXIT, exitCodeOf } from './exit-codes.ts';
import { reportFailure } from './failure-report.ts';
import { addFrameworkCommand } from './framework-command.ts';
import { addJobsCommand } from './jobs-command.ts';
import { addKeysCommand } from './keys-command.ts';
import { addLimitsCommand } from './limits-command.ts';
import { DETECTOR_MODEL, openModels } from './model-access.ts';
import { addModelsCommand } from './models-command.ts';
import { DEFAULT_MODEL } from './options.ts';
import { addRunCommand } from './run-command.ts';
import { addSchedulesCommand } from './schedules-command.ts';
import { addServeCommand } from './serve-command.ts';
import { addStatusCommand } from './status-command.ts';
import { addTenantsCommand } from './tenants-command.ts';
import { addWatchCommand } from './watch-command.ts';
import { addWebhooksCommand } from './webhooks-command.ts';
import { addWorkerCommand } from './worker-command.ts';

export interface ProgramServices {
  /** See `DoctorProbes`. */
  readonly loadAddon: (config: CliContext['config']) => Promise<string>;
}

export function buildProgram(context: CliContext, services: ProgramServices): Command {
  const program = new Command('wavepool')
    .description('durable batch processing of audio on your own hardware')
    .version(packageVersion())
    .showHelpAfterError('(wavepool --help, or wavepool COMMAND --help, shows how)')
    .configureOutput({
      writeOut: (text) => context.stdout.write(text),
      writeErr: (text) => context.stderr.write(text),
    })
    .exitOverride();
  addRunCommand(program, context);
  addWatchCommand(program, context);
  addWorkerCommand(program, context);
  addServeCommand(program, context);
  addKeysCommand(program, context);
  addEnqueueCommand(program, context);
  addJobsCommand(program, context);
  addWebhooksCommand(program, context);
  addSchedulesCommand(program, context);
  addTenantsCommand(program, context);
  addLimitsCommand(program, context);
  addStatusCommand(program, context);
  addModelsCommand(program, context);
  addFrameworkCommand(program, context);
  addBenchCommand(program, context);
  addDoctorCommand(program, context, (config): DoctorProbes => {
    return {
      config,
      loadAddon: () => services.loadAddon(config),
      missingModels: () => missingModels(config, context),
    };
  });
  return program;
}

/** Runs one command line; `argv` without the program's own name. Never rejects. */
export async function runCommandLine(
  argv: readonly string[],
  context: CliContext,
  services: ProgramServices,
): Promise<ExitCode> {
  try {
    await buildProgram(context, services).parseAsync(argv, { from: 'user' });
    return context.exitCode;
  } catch (error) {
    // Commander has printed its message or the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    reportFailure(context, error);
    return exitCodeOf(error);
  }
}

async function missingModels(config: CliContext['config'], context: CliContext): Promise<string[]> {
  const needed: readonly string[] = [DEFAULT_MODEL, DETECTOR_MODEL];
  const listed = await openModels(config, context).list();
  return listed
    .filter(({ entry, state }) => needed.includes(entry.id) && state !== 'installed')
    .map(({ entry }) => entry.id);
}

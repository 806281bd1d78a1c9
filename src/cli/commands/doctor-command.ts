/** `wavepool doctor`: what is missing on this machine and the command that installs it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import type { Writable } from 'node:stream';
import type { Command } from 'commander';
import { createColors } from 'picocolors';
import type { Config } from '../../core/config.ts';
import { WavepoolError } from '../../core/errors.ts';
import { packageFolder } from '../../core/package-folder.ts';
import { openModels } from '../access/model-access.ts';
import {
  addPlaceOptions,
  DEFAULT_MODEL,
  DETECTOR_MODEL,
  type PlaceOptions,
  placesOf,
} from '../options/options.ts';
import { type CliContext, EXIT } from '../terminal/context.ts';
import { textTable } from '../terminal/text.ts';
import { type Check, checkMachine } from './doctor-checks.ts';

export interface DoctorServices {
  /** Loads the addon; its build identity. */
  loadAddon(config: Config): Promise<string>;
}

interface DoctorOptions extends PlaceOptions {
  readonly build?: true;
  readonly json?: true;
}

export function addDoctorCommand(
  program: Command,
  context: CliContext,
  services: DoctorServices,
): void {
  const command = program
    .command('doctor')
    .description('show what is missing on this machine and the command that installs it');
  addPlaceOptions(command)
    .option('--build', 'compile the native addon first, where it is not there or not up to date')
    .option('--json', 'print the checks as one JSON object on stdout')
    .addHelpText('after', '\nExit code: 0 when nothing is missing, else 3.')
    .action(async (options: DoctorOptions) => {
      const config = placesOf(context.config, options);
      if (options.build === true) await buildAddon(context.stderr);
      const checks = await checkMachine({
        config,
        loadAddon: () => services.loadAddon(config),
        missingModels: () => missingModels(config, context),
      });
      const ok = checks.every(({ state }) => state !== 'missing');
      const text = options.json === true ? json(ok, checks) : table(checks, context);
      context.stdout.write(text);
      context.exitCode = ok ? EXIT.done : EXIT.environment;
    });
}

async function missingModels(config: Config, context: CliContext): Promise<string[]> {
  const needed: readonly string[] = [DEFAULT_MODEL, DETECTOR_MODEL];
  const listed = await openModels(config, context).list();
  return listed
    .filter(({ entry, state }) => needed.includes(entry.id) && state !== 'installed')
    .map(({ entry }) => entry.id);
}

/**
 * Compiles the native addon with the script and the sources that ship with the package. Takes a minute or two the first time,
 * hardly any when nothing has changed.
 * @param progress is told how far it has got, and what the compiler says when it fails
 * @throws {WavepoolError} ADDON_MISSING
 */
async function buildAddon(progress: Writable): Promise<void> {
  const script = packageFolder('scripts', 'build-native.mjs');
  const child = spawn(process.execPath, [script, '--progress'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const output of [child.stdout, child.stderr]) output.pipe(progress, { end: false });
  const [code] = await once(child, 'close');
  if (code === 0) return;
  const detail = `it could not be compiled in ${packageFolder()}, which has to be writable`;
  throw new WavepoolError('ADDON_MISSING', detail);
}

function json(ok: boolean, checks: readonly Check[]): string {
  return `${JSON.stringify({ ok, checks })}\n`;
}

const MARKS: Readonly<Record<Check['state'], string>> = {
  ok: 'ok     ',
  warning: 'warning',
  missing: 'MISSING',
};

function table(checks: readonly Check[], context: CliContext): string {
  const lines = textTable(checks.map(({ name, state, detail }) => [name, MARKS[state], detail]));
  const fixes = checks.flatMap(({ name, fix }) => (fix === undefined ? [] : [[`  ${name}`, fix]]));
  const advice = fixes.length === 0 ? '' : `\nTo fix:\n${textTable(fixes)}`;
  return colored(lines, context) + advice;
}

function colored(text: string, { stdout }: CliContext): string {
  const colors = createColors(stdout.isTTY === true);
  return text
    .replaceAll(/\bMISSING\b/g, colors.red('MISSING'))
    .replaceAll(/\bwarning\b/g, colors.yellow('warning'));
}

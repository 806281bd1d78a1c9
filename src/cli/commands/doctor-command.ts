/** `wavepool doctor`: what is missing on this machine and the command that installs it. */
import type { Command } from 'commander';
import { createColors } from 'picocolors';
import type { CliContext } from '../context.ts';
import { buildAddon } from '../doctor/build-addon.ts';
import type { Check, DoctorProbes } from '../doctor/doctor-checks.ts';
import { checkMachine } from '../doctor/doctor-checks.ts';
import { EXIT } from '../exit-codes.ts';
import type { PlaceOptions } from '../options/options.ts';
import { addPlaceOptions, placesOf } from '../options/options.ts';
import { textTable } from '../output/text-table.ts';

interface DoctorOptions extends PlaceOptions {
  readonly build?: true;
  readonly json?: true;
}

export function addDoctorCommand(
  program: Command,
  context: CliContext,
  probesFor: (config: CliContext['config']) => DoctorProbes,
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
      const checks = await checkMachine(probesFor(config));
      const ok = checks.every(({ state }) => state !== 'missing');
      const text = options.json === true ? json(ok, checks) : table(checks, context);
      context.stdout.write(text);
      context.exitCode = ok ? EXIT.done : EXIT.environment;
    });
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

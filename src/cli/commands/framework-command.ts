/** `wavepool framework`: what all models of a build share. */
import type { Command } from 'commander';
import {
  type EvidenceStatus,
  type FrameworkEvidence,
  verdictOf,
} from '../../core/evidence/evidence.ts';
import { NativeEngine } from '../../engine/native-engine.ts';
import { EvidenceStore } from '../../models/evidence/evidence-store.ts';
import { CheckoutTests } from '../../models/validation/checkout-tests.ts';
import { FRAMEWORK_ENTRIES, validateFramework } from '../../models/validation/framework-gate.ts';
import { evidenceMachine } from '../capacity/standard-capacity.ts';
import { placesOf } from '../options/options.ts';
import { type CliContext, EXIT, type ExitCode, printLine } from '../terminal/context.ts';
import { isInterruption, watchInterrupts } from '../terminal/interrupts.ts';
import { textTable } from '../terminal/text.ts';

interface FrameworkOptions {
  readonly modelsDir?: string;
  readonly json?: true;
  readonly quiet?: true;
}

const HELP = `
Runs the tests behind entries F1 to F6, sanitizers included, and records the outcome for this build of the native code. That
needs a checkout of Wavepool with its development dependencies; an installed package comes with the record of its release.

Exit codes: 0 all entries passed, 1 one failed, 3 they could not be run here, 130 interrupted.`;

export function addFrameworkCommand(program: Command, context: CliContext): void {
  program
    .command('framework')
    .description('validate what all models share')
    .command('validate')
    .description('run the tests that every admitted slot count rests on')
    .option('--models-dir <dir>', 'where evidence goes (default: $XDG_DATA_HOME/wavepool/models)')
    .option('--json', 'print the evidence on stdout')
    .option('--quiet', 'print failures only')
    .addHelpText('after', HELP)
    .action(async (options: FrameworkOptions) => {
      await validate(options, context);
    });
}

async function validate(options: FrameworkOptions, context: CliContext): Promise<void> {
  const config = placesOf(context.config, options);
  const store = new EvidenceStore(config);
  const { identity: build } = new NativeEngine({ addon: config.addonPath }).build;
  const quiet = options.quiet === true || options.json === true;
  using watch = watchInterrupts(context, {
    onFirst: () => printLine(context.stderr, 'stopping'),
  });
  try {
    const runner = new CheckoutTests({ environment: context.environment, signal: watch.signal });
    const known = runner.obstacle === undefined ? undefined : (await store.framework(build)).record;
    const evidence =
      known ??
      (await validateFramework(runner, {
        build,
        machine: evidenceMachine(),
        reproduce: 'wavepool framework validate',
        onEntry: ({ id, title }) => {
          if (!quiet) printLine(context.stderr, `${id}: ${title}`);
        },
      }));
    if (runner.obstacle === undefined) await store.writeFramework(evidence);
    else printLine(context.stderr, runner.obstacle);
    show(evidence, options, context);
    printLine(context.stderr, `build ${build}: ${verdictOf(evidence.entries)}`);
  } catch (error) {
    if (!isInterruption(error, watch)) throw error;
    context.exitCode = EXIT.interrupted;
  }
}

const EXIT_CODES: Record<EvidenceStatus, ExitCode> = {
  PASS: EXIT.done,
  NOT_APPLICABLE: EXIT.done,
  FAIL: EXIT.someFailed,
  PENDING: EXIT.environment,
  BLOCKED: EXIT.environment,
  UNSUPPORTED: EXIT.environment,
};

function show(evidence: FrameworkEvidence, options: FrameworkOptions, context: CliContext): void {
  const { entries } = evidence;
  context.exitCode = EXIT_CODES[verdictOf(entries)];
  if (options.json === true) {
    printLine(context.stdout, JSON.stringify(evidence));
    return;
  }
  const shown =
    options.quiet === true ? entries.filter(({ status }) => status !== 'PASS') : entries;
  const rows = shown.map(({ id, status, reason, observed }) => {
    const title = FRAMEWORK_ENTRIES.find((entry) => entry.id === id)?.title ?? '';
    return [id, title, status, reason ?? `${observed.length} suites and files`];
  });
  if (rows.length > 0) context.stdout.write(textTable(rows));
}

/** `wavepool models validate`: proves how many slots of a model may work beside each other here. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Command, Option } from 'commander';
import { WavepoolError } from '../../core/errors.ts';
import type { EvidenceMode, EvidenceStatus, ModelEvidence } from '../../core/evidence/evidence.ts';
import { ModelId } from '../../core/job/job.ts';
import { EvidenceStore } from '../../models/evidence/evidence-store.ts';
import { renderReport } from '../../models/report/report-page.ts';
import { StartProcess } from '../../models/validation/start-process.ts';
import { type ValidationProgress, validateModel } from '../../models/validation/validate-model.ts';
import { openModels, type PullViewOptions, pullModel } from '../access/model-access.ts';
import { MAX_BATCH, MAX_SLOTS, MAX_THREADS } from '../capacity/capacity-options.ts';
import { evidenceMachine } from '../capacity/standard-capacity.ts';
import { parseCount, placesOf } from '../options/options.ts';
import { type CliContext, EXIT, type ExitCode, printLine } from '../terminal/context.ts';
import { isInterruption, watchInterrupts } from '../terminal/interrupts.ts';
import { textTable } from '../terminal/text.ts';

const DEFAULT_BATCH = 8;
const MODES: readonly EvidenceMode[] = ['offline', 'batch', 'streaming'];

interface ValidateOptions {
  readonly slots: number;
  readonly mode: EvidenceMode;
  readonly batch: number;
  readonly threads: number;
  readonly file?: string;
  readonly fresh?: true;
  readonly report?: string;
  readonly modelsDir?: string;
  readonly json?: true;
  readonly quiet?: true;
}

const HELP = `
Runs the model three times in fresh processes with each count from 1 to N, and compares everything with one slot; what
passes is recorded beside the weights and admits --slots. Takes seconds to minutes a start, best on an idle machine.
Interrupted, the same command goes on with the next start. docs/models.md explains the procedure.

Modes: batch is what run, worker and serve use (a slot computes several segments together), offline is --batch 1,
streaming is for live callers.

Exit codes: 0 all counts passed, 1 a count failed, 3 it could not be run here, 130 interrupted.`;

export function addValidateCommand(models: Command, context: CliContext): void {
  models
    .command('validate')
    .description('prove how many slots of a model may work at once')
    .argument('<model>', 'as `wavepool models list` shows it')
    .requiredOption(
      '--slots <n>',
      'the largest count; all below are validated, too',
      parseCount(MAX_SLOTS),
    )
    .addOption(new Option('--mode <mode>', 'how the model is used').choices(MODES).default('batch'))
    .option(
      '--batch <n>',
      'segments of one native batch, in mode batch',
      parseCount(MAX_BATCH),
      DEFAULT_BATCH,
    )
    .option('--threads <n>', 'compute threads of one slot', parseCount(MAX_THREADS), 1)
    .option(
      '--file <file>',
      'weights that are not of the catalogue; evidence goes beside their folder',
    )
    .option('--fresh', 'forget the starts of an earlier call')
    .option('--report <file>', 'write a page about it; `html` names it after the model')
    .option('--models-dir <dir>', 'weights and evidence (default: $XDG_DATA_HOME/wavepool/models)')
    .option('--json', 'print the evidence on stdout')
    .option('--quiet', 'print failures only')
    .addHelpText('after', HELP)
    .action(async (model: string, options: ValidateOptions) => {
      await validate(model, options, context);
    });
}

async function validate(id: string, options: ValidateOptions, context: CliContext): Promise<void> {
  const config = placesOf(context.config, options);
  const quiet = options.quiet === true || options.json === true;
  using watch = watchInterrupts(context, {
    onFirst: () => printLine(context.stderr, 'stopping; the same command goes on with this start'),
  });
  using view = new ProgressView(context, quiet);
  try {
    const { signal } = watch;
    const place = await placeOf(id, options, context, { quiet, signal });
    const { store } = place;
    const evidence = await validateModel({
      model: { id, path: place.weights },
      ...options,
      addonPath: config.addonPath,
      store,
      worker: new StartProcess(),
      machine: evidenceMachine(),
      reproduce: commandOf(id, options),
      signal,
      onProgress: (progress) => view.show(progress),
      onJudged: (judged) => view.judged(judged),
    });
    view.close();
    await finish(evidence, options, store, context);
  } catch (error) {
    if (!isInterruption(error, watch)) throw error;
    context.exitCode = EXIT.interrupted;
  }
}

interface Place {
  readonly weights: string;
  readonly store: EvidenceStore;
}

/** @throws {WavepoolError} INVALID_REQUEST for a name that no model can have, and what `pullModel` throws */
async function placeOf(
  id: string,
  options: ValidateOptions,
  context: CliContext,
  pull: PullViewOptions,
): Promise<Place> {
  const config = placesOf(context.config, options);
  if (options.file === undefined) {
    const { path: weights } = await pullModel(openModels(config, context), id, context, pull);
    return { weights, store: new EvidenceStore(config) };
  }
  if (!ModelId.safeParse(id).success) {
    throw new WavepoolError('INVALID_REQUEST', `${id} cannot be the name of a model`);
  }
  const weights = path.resolve(options.file);
  return { weights, store: EvidenceStore.ofWeights(weights) };
}

async function finish(
  evidence: ModelEvidence,
  options: ValidateOptions,
  store: EvidenceStore,
  context: CliContext,
): Promise<void> {
  const { model: id, mode, build } = evidence.identity;
  const { count, reason } = await store.admitted(evidence.identity, evidence.manifest.batch);
  if (options.report !== undefined) {
    const file = path.resolve(options.report === 'html' ? `${id}-${mode}.html` : options.report);
    const framework = (await store.framework(build)).record;
    await writeFile(file, renderReport(evidence, framework, { count, reason }));
    printLine(context.stderr, `report: ${file}`);
  }
  if (options.json === true) printLine(context.stdout, JSON.stringify(evidence));
  else if (options.quiet !== true) context.stdout.write(resultTable(evidence));
  printLine(context.stderr, `evidence: ${store.modelFile(id, mode)}`);
  const admitted = `${id} may have ${count} ${count === 1 ? 'slot' : 'slots'} in mode ${mode}`;
  printLine(context.stderr, count >= options.slots ? admitted : `${admitted}: ${reason}`);
  context.exitCode = EXIT_CODES[evidence.verdicts.model];
}

const EXIT_CODES: Record<EvidenceStatus, ExitCode> = {
  PASS: EXIT.done,
  NOT_APPLICABLE: EXIT.done,
  FAIL: EXIT.someFailed,
  PENDING: EXIT.someFailed,
  BLOCKED: EXIT.environment,
  UNSUPPORTED: EXIT.environment,
};

function resultTable({ counts }: ModelEvidence): string {
  const ids = counts[0]?.entries.map(({ id }) => id) ?? [];
  const rows = counts.map(({ slots, verdict, entries, throughput }) => [
    String(slots),
    verdict,
    ...entries.map(({ status }) => status),
    throughput === null ? '' : (throughput.audioSeconds / throughput.wallSeconds).toFixed(1),
  ]);
  const reasons = counts.flatMap(({ slots, entries }) =>
    entries.flatMap(({ id, status, reason }) =>
      status === 'PASS' || status === 'PENDING' || reason === undefined
        ? []
        : [`${slots} slots, ${id} ${status}: ${reason}\n`],
    ),
  );
  const head = ['slots', 'verdict', ...ids, '× real time'];
  return `${textTable([head, ...rows])}${reasons.join('')}`;
}

function commandOf(id: string, { slots, mode, batch, threads, file }: ValidateOptions): string {
  const parts = [`wavepool models validate ${id} --slots ${slots} --mode ${mode}`];
  if (file !== undefined) parts.push(`--file ${file}`);
  if (mode === 'batch' && batch !== DEFAULT_BATCH) parts.push(`--batch ${batch}`);
  if (threads !== 1) parts.push(`--threads ${threads}`);
  return parts.join(' ');
}

/** A line that is rewritten on a terminal; elsewhere one for each start. */
class ProgressView implements Disposable {
  readonly #context: CliContext;
  readonly #quiet: boolean;
  #lineIsOpen = false;
  #announced = '';

  constructor(context: CliContext, quiet: boolean) {
    this.#context = context;
    this.#quiet = quiet;
  }

  show({ slots, start, phase, wave, waves, doneStarts, totalStarts }: ValidationProgress): void {
    if (this.#quiet) return;
    const { stderr } = this.#context;
    const which = `${slots} ${slots === 1 ? 'slot' : 'slots'}, start ${start} of 3`;
    if (stderr.isTTY === true) {
      const where = phase === 'warm' ? `warm wave ${wave} of ${waves}` : phase;
      stderr.write(`\r\u001b[K[${doneStarts}/${totalStarts}] ${which}: ${where}`);
      this.#lineIsOpen = true;
    } else if (which !== this.#announced) {
      this.#announced = which;
      printLine(stderr, `[${doneStarts}/${totalStarts}] ${which}`);
    }
  }

  /** A count that has failed is told at once. */
  judged({ counts }: ModelEvidence): void {
    const failed = counts.find(({ verdict }) => verdict === 'FAIL');
    if (failed === undefined) return;
    this.close();
    const entry = failed.entries.find(({ status }) => status === 'FAIL');
    printLine(this.#context.stderr, `${failed.slots} slots: ${entry?.id} failed: ${entry?.reason}`);
  }

  close(): void {
    if (this.#lineIsOpen) this.#context.stderr.write('\n');
    this.#lineIsOpen = false;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** `wavepool models`: which models there are, getting them, and what workers do with them. */
import type { Command } from 'commander';
import { packageSpec } from '../models/catalogue.ts';
import type { ListedModel } from '../models/model-store.ts';
import type { CliContext } from './context.ts';
import { printLine } from './context.ts';
import { addControlCommands } from './control-commands.ts';
import { EXIT } from './exit-codes.ts';
import { isInterruption, watchInterrupts } from './interrupts.ts';
import { openModels, pullModel } from './model-access.ts';
import { placesOf } from './options.ts';
import { formatBytes } from './quantities.ts';
import { textTable } from './text-table.ts';
import { addValidateCommand } from './validate-command.ts';

const MODELS_DIR = [
  '--models-dir <dir>',
  'weights (default: $XDG_DATA_HOME/wavepool/models)',
] as const;

interface ModelsOptions {
  readonly modelsDir?: string;
  readonly json?: true;
  readonly quiet?: true;
}

export function addModelsCommand(program: Command, context: CliContext): void {
  const models = program
    .command('models')
    .description('show, get, load, unload and reconfigure models');
  addList(models, context);
  addPull(models, context);
  addControlCommands(models, context);
  addValidateCommand(models, context);
}

function addList(models: Command, context: CliContext): void {
  models
    .command('list')
    .description('show the models that can be used')
    .option(...MODELS_DIR)
    .option('--json', 'print one JSON object on stdout')
    .action(async (options: ModelsOptions) => {
      const listed = await openModels(placesOf(context.config, options), context).list();
      const rows = listed.map(describeModel);
      context.stdout.write(
        options.json === true ? `${JSON.stringify({ models: rows })}\n` : modelTable(rows),
      );
    });
}

function addPull(models: Command, context: CliContext): void {
  models
    .command('pull')
    .description('download, verify and install models')
    .argument('<id...>', 'as `wavepool models list` shows them')
    .option(...MODELS_DIR)
    .option('--json', 'print one JSON object on stdout')
    .option('--quiet', 'print failures only')
    .action(async (ids: string[], options: ModelsOptions) => {
      const store = openModels(placesOf(context.config, options), context);
      const quiet = options.quiet === true || options.json === true;
      using watch = watchInterrupts(context, {
        onFirst: () => printLine(context.stderr, 'stopping; press again to stop now'),
      });
      const pulled: { id: string; path: string; bytes: number }[] = [];
      try {
        for (const id of ids) {
          const { path, record } = await pullModel(store, id, context, {
            quiet,
            signal: watch.signal,
          });
          pulled.push({ id, path, bytes: record.weights.bytes });
          if (!quiet) printLine(context.stderr, `${id}: ${path}`);
        }
      } catch (error) {
        if (!isInterruption(error, watch)) throw error;
        context.exitCode = EXIT.interrupted;
        return;
      }
      if (options.json === true) printLine(context.stdout, JSON.stringify({ models: pulled }));
    });
}

interface ModelRow {
  readonly id: string;
  readonly task: string;
  readonly languages: readonly string[];
  readonly license: string;
  /** Of the installed weights; of the download for a model that is not installed. */
  readonly bytes: number;
  readonly state: ListedModel['state'];
  readonly source: string;
  readonly description: string;
  readonly path: string | null;
}

function describeModel({ entry, state, installed }: ListedModel): ModelRow {
  const { id, task, languages, license, description, sources } = entry;
  const download = sources.reduce((sum, { tarballBytes }) => sum + tarballBytes, 0);
  return {
    id,
    task,
    languages,
    license,
    bytes: installed?.record.weights.bytes ?? download,
    state,
    source: sources.map((source) => `npm:${packageSpec(source)}`).join(', '),
    description,
    path: installed?.path ?? null,
  };
}

function modelTable(rows: readonly ModelRow[]): string {
  const head = ['id', 'task', 'languages', 'license', 'size', 'state', 'source'];
  const body = rows.map((row) => [
    row.id,
    row.task,
    row.languages.join(',') || 'any',
    row.license,
    formatBytes(row.bytes),
    row.state,
    row.source,
  ]);
  return textTable([head, ...body]);
}

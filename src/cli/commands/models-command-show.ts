/** `wavepool models list`, `show` and `remove`: what there is, everything about one, and away with it. */
import type { Command } from 'commander';
import { EvidenceStore } from '../../models/evidence/evidence-store.ts';
import type { ListedModel } from '../../models/installed/installed-models.ts';
import type { CliContext } from '../context.ts';
import { printLine } from '../context.ts';
import { MODELS_DIR, openModels } from '../model-access.ts';
import { placesOf } from '../options/options.ts';
import { formatBytes } from '../output/quantities.ts';
import { describeModel, modelDetails, modelTable } from './models-command-details.ts';

interface ShowOptions {
  readonly modelsDir?: string;
  readonly json?: true;
  readonly installed?: true;
}

export function addListCommand(models: Command, context: CliContext): void {
  models
    .command('list')
    .description('show the models that can be used')
    .option('--installed', 'only those that are in the models directory')
    .option(...MODELS_DIR)
    .option('--json', 'print one JSON object on stdout')
    .addHelpText(
      'after',
      `
State is installed, missing (a pull gets it) or outdated (the next pull replaces it). Size is that of the installed weights,
else of the download. Validated is the largest number of slots that was shown to be safe, by mode. Whisper models exist in
other block formats, too: \`wavepool models pull whisper-base --quantize q4_1\` makes whisper-base-q4_1.`,
    )
    .action(async (options: ShowOptions) => {
      const config = placesOf(context.config, options);
      const listed = await openModels(config, context).list();
      const wanted = listed.filter(({ state }) => !options.installed || state !== 'missing');
      const rows = await Promise.all(wanted.map((model) => describeModel(model, config.modelsDir)));
      context.stdout.write(
        options.json === true ? `${JSON.stringify({ models: rows })}\n` : modelTable(rows),
      );
    });
}

export function addShowCommand(models: Command, context: CliContext): void {
  models
    .command('show')
    .description('everything about one model: license, sources, checksums, where it is, evidence')
    .argument('<id>', 'as `wavepool models list` shows it')
    .option(...MODELS_DIR)
    .option('--json', 'print one JSON object on stdout')
    .action(async (id: string, options: ShowOptions) => {
      const config = placesOf(context.config, options);
      const model: ListedModel = await openModels(config, context).show(id);
      const row = await describeModel(model, config.modelsDir);
      if (options.json === true) printLine(context.stdout, JSON.stringify(row));
      else context.stdout.write(modelDetails(row));
    });
}

export function addRemoveCommand(models: Command, context: CliContext): void {
  models
    .command('remove')
    .description('delete installed models')
    .argument('<id...>', 'as `wavepool models list --installed` shows them')
    .option(...MODELS_DIR)
    .option('--json', 'print one JSON object on stdout')
    .addHelpText(
      'after',
      `
Weights and record go. What was validated stays and counts again when the very same weights come back; evidence about other
weights goes with them. A worker that has the model loaded keeps it until it ends.`,
    )
    .action(async (ids: string[], options: ShowOptions) => {
      const config = placesOf(context.config, options);
      const store = openModels(config, context);
      const evidence = new EvidenceStore(config);
      const removed: { id: string; bytes: number }[] = [];
      for (const id of ids) {
        const { weights } = await store.remove(id);
        await evidence.forgetOthers(id, weights.sha256);
        removed.push({ id, bytes: weights.bytes });
        if (options.json !== true) {
          printLine(context.stderr, `${id}: removed, ${formatBytes(weights.bytes)} free`);
        }
      }
      if (options.json === true) printLine(context.stdout, JSON.stringify({ models: removed }));
    });
}

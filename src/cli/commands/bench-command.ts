/** `wavepool bench`: a quick look at what this machine does, without Redis and without peers. */
import { type Command, Option } from 'commander';
import { WavepoolError } from '../../core/errors.ts';
import { packageFolder } from '../../core/package-folder.ts';
import { NativeEngine } from '../../engine/native-engine.ts';
import { openModels } from '../access/model-access.ts';
import { thisMachine } from '../capacity/standard-capacity.ts';
import {
  collect,
  DETECTOR_MODEL,
  MODELS_DIR,
  parseCount,
  parseDuration,
  placesOf,
} from '../options/options.ts';
import { type CliContext, EXIT, printLine } from '../terminal/context.ts';
import { isInterruption, watchInterrupts } from '../terminal/interrupts.ts';
import { textTable } from '../terminal/text.ts';
import {
  decodeSpeed,
  detectSpeed,
  type MeasureOptions,
  type ModelSpeed,
  Recordings,
  recognizeSpeed,
  shapesFor,
} from './bench-measure.ts';

const BATCH = 8;
const TIME_MS = 3_000;

interface BenchOptions {
  readonly model: readonly string[];
  readonly time: number;
  readonly batch: number;
  readonly modelsDir?: string;
  readonly json?: true;
}

interface BenchReport {
  readonly machine: { readonly cpu: string; readonly cores: number; readonly build: string };
  readonly decode: { readonly audioSecondsPerSecond: number };
  /** Null when the detector is not installed. */
  readonly vad: { readonly audioSecondsPerSecond: number } | null;
  readonly models: readonly ({ readonly id: string } & ModelSpeed)[];
}

const HELP = `
Recognizes the speech that ships with Wavepool for a few seconds in each of some shapes (slots × threads × batch size) and prints
seconds of audio per second: 100 means that an hour takes 36 s. The engine runs alone, without the queue, speech detection
and result files of \`wavepool run\`, which stays some percent below. Nothing else should run on the machine meanwhile.

First result is the time from reading the weights to the first text. VAD (finding speech) and decoding run on one thread.

Examples:
  wavepool bench
  wavepool bench --model whisper-tiny.en --time 10s
  wavepool bench --json | jq '.models[].shapes[]'

Exit codes: 0 done, 2 usage, 3 this machine (no model is installed, the addon is not built), 130 interrupted.`;

export function addBenchCommand(program: Command, context: CliContext): void {
  program
    .command('bench')
    .description('measure how fast this machine transcribes')
    .option(
      '--model <id>',
      'only this model; may be given again (default: all installed)',
      collect,
      [],
    )
    .addOption(
      new Option('--time <time>', 'for each figure')
        .argParser(parseDuration)
        .default(TIME_MS, '3s'),
    )
    .addOption(
      new Option('--batch <n>', 'largest batch size to try')
        .argParser(parseCount(64))
        .default(BATCH),
    )
    .option(...MODELS_DIR)
    .option('--json', 'print the figures as one JSON object on stdout')
    .addHelpText('after', HELP)
    .action((options: BenchOptions) => bench(options, context));
}

async function bench(options: BenchOptions, context: CliContext): Promise<void> {
  using interrupts = watchInterrupts(context, {
    onFirst: () => printLine(context.stderr, 'stopping'),
  });
  try {
    const seconds = options.time / 1_000;
    const report = await measure(options, context, { seconds, signal: interrupts.signal });
    context.stdout.write(options.json === true ? `${JSON.stringify(report)}\n` : describe(report));
  } catch (error) {
    if (!isInterruption(error, interrupts)) throw error;
    context.exitCode = EXIT.interrupted;
  }
}

/** @throws {WavepoolError} MODEL_UNKNOWN, ADDON_MISSING, or what a model fails with */
async function measure(
  options: BenchOptions,
  context: CliContext,
  limits: MeasureOptions,
): Promise<BenchReport> {
  const config = placesOf(context.config, options);
  const listed = await openModels(config, context).list();
  const installed = listed.flatMap(({ entry, installed: found }) =>
    found === undefined ? [] : [{ id: entry.id, task: entry.task, path: found.path }],
  );
  const { model: wanted } = options;
  for (const id of wanted) {
    if (installed.some((model) => model.id === id)) continue;
    throw notInstalled(id);
  }
  const models = installed.filter(
    ({ id, task }) => task === 'asr' && (wanted.length === 0 || wanted.includes(id)),
  );
  if (models.length === 0) throw notInstalled('moonshine-tiny');
  const say = (what: string): void => {
    if (options.json !== true) printLine(context.stderr, `measuring ${what}`);
  };
  const { cpu, cores } = thisMachine();
  const engine = new NativeEngine({ addon: config.addonPath });
  await using recordings = await Recordings.open(engine, packageFolder('evidence/fixtures'));
  say('decoding');
  const decode = { audioSecondsPerSecond: await decodeSpeed(engine, recordings, limits) };
  const detector = installed.find(({ id }) => id === DETECTOR_MODEL);
  if (detector !== undefined) say(detector.id);
  const vad =
    detector === undefined
      ? null
      : { audioSecondsPerSecond: await detectSpeed(engine, detector.path, recordings, limits) };
  const speeds: BenchReport['models'][number][] = [];
  const shapes = shapesFor(cores, options.batch);
  for (const { id, path } of models) {
    say(id);
    speeds.push({ id, ...(await recognizeSpeed(engine, path, recordings, shapes, limits)) });
  }
  const machine = { cpu, cores, build: engine.build.identity };
  return { machine, decode, vad, models: speeds };
}

function notInstalled(id: string): WavepoolError {
  return new WavepoolError(
    'MODEL_UNKNOWN',
    `${id} is not installed; run \`wavepool models pull ${id}\``,
  );
}

function describe({ machine, decode, vad, models }: BenchReport): string {
  const speed = (value: number): string => value.toFixed(value < 100 ? 1 : 0);
  const rows = models.flatMap(({ id, shapes, firstResultSeconds }) =>
    shapes.map(({ slots, threads, batch, audioSecondsPerSecond }, at) => [
      at === 0 ? id : '',
      `${slots} × ${threads} × ${batch}`,
      speed(audioSecondsPerSecond),
      at === 0 ? `${firstResultSeconds.toFixed(2)} s` : '',
    ]),
  );
  const head = ['model', 'slots × threads × batch', 'audio s per s', 'first result'];
  const rest = [
    ['decoding', '1 thread', speed(decode.audioSecondsPerSecond)],
    ...(vad === null ? [] : [['VAD', '1 thread', speed(vad.audioSecondsPerSecond)]]),
  ];
  return `${machine.cores} × ${machine.cpu}\n${textTable([head, ...rows, ...rest])}`;
}

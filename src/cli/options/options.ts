/** Options that several commands share, and the parsers of their values. */
import { availableParallelism, freemem } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';
import { InvalidArgumentError, Option } from 'commander';
import type { Config } from '../../core/config.ts';
import { parseRawAudioFormat, RAW_CODECS, type RawAudioFormat } from '../../core/job/job.ts';
import { type ObjectPlace, parseObjectPlace } from '../../core/s3-settings.ts';
import { parseRedisUrl } from '../../queue/redis/redis-url.ts';
import { type CliContext, printLine } from '../context.ts';

export const DEFAULT_MODEL = 'moonshine-tiny';

const MAX_SLOTS = 16;
const MAX_BATCH = 64;
/** Without evidence for more, one slot; what a slot is given at once is measured in docs/performance.md. */
const AUTO_SLOTS = 1;
const AUTO_BATCH = 8;
/** One thread per slot: threads of one graph wait for each other actively, and collapse when a core is taken away. */
const AUTO_THREADS = 1;
const MAX_AUTO_WORKERS = 8;
/** Without evidence for the mode `streaming` it is one. */
const LIVE_STREAMS = 4;
/** What a worker with one slot takes, with room to spare. */
const WORKER_BYTES = 400 * 2 ** 20;

export type CountOrAuto = number | 'auto';

export interface PlaceOptions {
  readonly dataDir?: string;
  readonly modelsDir?: string;
  readonly redis?: string;
  readonly storage?: ObjectPlace;
  readonly objectRoot?: readonly ObjectPlace[];
}

export interface CapacityOptions {
  readonly slots: CountOrAuto;
  readonly unvalidatedSlots?: number;
  readonly batch: CountOrAuto;
  readonly threads: number;
  readonly workers: CountOrAuto;
  /** Set by `addCapacityOptions` from how the command was typed. */
  readonly tuning?: TuningWish;
}

/** Whether what is `auto` is to be measured. */
export interface TuningWish {
  /** `auto` was typed, not left out. */
  readonly wanted: boolean;
  /** Even if it is known. */
  readonly again: boolean;
  readonly threadsTyped: boolean;
}

/** Capacity as the workers are told. */
export interface Capacity {
  readonly slots: number;
  /** Slot counts up to this one are taken without evidence. */
  readonly unvalidatedSlots: number;
  readonly batch: number;
  readonly threads: number;
  readonly workers: number;
}

/** For options that may be given more than once. */
export function collect(value: string, before: readonly string[]): string[] {
  return [...before, value];
}

/** Of a repeatable `--model`; each once. */
export function modelsOf(given: readonly string[]): string[] {
  return given.length === 0 ? [DEFAULT_MODEL] : [...new Set(given)];
}

const BYTE_UNITS: Readonly<Record<string, number>> = { '': 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 };

/** `500M`, `4G`; a bare number is bytes. */
export function parseBytes(text: string): number {
  const [, digits = '', unit = ''] = /^(\d+)([KMG]?)$/.exec(text) ?? [];
  const bytes = Number(digits) * (BYTE_UNITS[unit] ?? 1);
  if (bytes > 0 && Number.isSafeInteger(bytes)) return bytes;
  throw new InvalidArgumentError('Use a size such as 500M or 4G.');
}

export function parseCount(most: number): (text: string) => number {
  return (text) => {
    const count = Number(text);
    if (/^\d+$/.test(text) && count >= 1 && count <= most) return count;
    throw new InvalidArgumentError(`Use a whole number from 1 to ${most}.`);
  };
}

export function parseCountOrAuto(most: number): (text: string) => CountOrAuto {
  const parse = parseCount(most);
  return (text) => (text === 'auto' ? 'auto' : parse(text));
}

const DURATION_UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `90`, `90s`, `500ms`, `5m`, `2h`, `1d` as milliseconds; a bare number is seconds. */
export function parseDuration(text: string): number {
  const [, amount = '', unit = 's'] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? [];
  const ms = Math.round(Number(amount) * (DURATION_UNITS_MS[unit] ?? Number.NaN));
  if (amount !== '' && Number.isSafeInteger(ms)) return ms;
  throw new InvalidArgumentError('Use a time such as 90s, 5m or 2h.');
}

/** `CODEC,RATE,CHANNELS` */
export function parseInputFormat(text: string): RawAudioFormat {
  try {
    return parseRawAudioFormat(text);
  } catch {
    throw new InvalidArgumentError(
      `Use CODEC,RATE,CHANNELS such as mulaw,8000,1, with a codec of ${RAW_CODECS.join(', ')}.`,
    );
  }
}

export function addInputFormatOption(command: Command): Command {
  return command.addOption(
    new Option(
      '--input-format <codec,rate,channels>',
      'the files are samples without a header, such as mulaw,8000,1',
    ).argParser(parseInputFormat),
  );
}

export function addPlaceOptions(command: Command): Command {
  return command
    .option('--data-dir <dir>', 'queue and results (default: $XDG_DATA_HOME/wavepool)')
    .option('--models-dir <dir>', 'weights (default: $XDG_DATA_HOME/wavepool/models)')
    .option('--redis <url>', 'an existing Redis; without it a private one is started');
}

export function addStorageOption(command: Command): Command {
  return command.addOption(
    new Option(
      '--storage <s3://bucket/prefix>',
      'keep results and uploads there, for all machines, and not in the data directory',
    ).argParser(parsePlace),
  );
}

export function addObjectRootOption(command: Command): Command {
  return command.addOption(
    new Option(
      '--object-root <s3://bucket/prefix>',
      'allow inputs that are objects below this (repeatable)',
    ).argParser((text, before: readonly ObjectPlace[] = []) => [...before, parsePlace(text)]),
  );
}

function parsePlace(text: string): ObjectPlace {
  try {
    return parseObjectPlace(text);
  } catch {
    throw new InvalidArgumentError('Use s3://BUCKET or s3://BUCKET/PREFIX.');
  }
}

export function addCapacityOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--slots <n|auto>', 'sessions of the model in one worker')
        .argParser(parseCountOrAuto(MAX_SLOTS))
        .default('auto'),
    )
    .addOption(
      new Option('--unvalidated-slots <n>', 'like --slots, without evidence that it is safe here')
        .argParser(parseCount(MAX_SLOTS))
        .conflicts('slots'),
    )
    .addOption(
      new Option('--batch <n|auto>', 'segments computed together by one slot')
        .argParser(parseCountOrAuto(MAX_BATCH))
        .default('auto'),
    )
    .addOption(
      new Option('--threads <n>', 'compute threads of one slot')
        .argParser(parseCount(64))
        .default(AUTO_THREADS),
    )
    .addOption(
      new Option('--workers <n|auto>', 'worker processes')
        .argParser(parseCountOrAuto(64))
        .default('auto'),
    )
    .option('--retune', 'measure again what --slots auto and --batch auto choose')
    .hook('preAction', (ran) => {
      ran.setOptionValue('tuning', tuningWish(ran));
    });
}

/** `--slots auto` and `--batch auto` measure when they are typed; a command without them never takes that time. */
function tuningWish(command: Command): TuningWish {
  const isTyped = (name: string) => command.getOptionValueSource(name) === 'cli';
  const isAuto = (name: string) => isTyped(name) && command.getOptionValue(name) === 'auto';
  const again = command.getOptionValue('retune') === true;
  return {
    wanted: again || isAuto('slots') || isAuto('batch'),
    again,
    threadsTyped: isTyped('threads'),
  };
}

export function addLiveOption(command: Command): Command {
  return command.addOption(
    new Option(
      '--live-streams <n>',
      'live streams that one worker takes at once, as far as evidence admits; 0 takes none',
    )
      .argParser(parseLiveStreams)
      .default(LIVE_STREAMS),
  );
}

function parseLiveStreams(text: string): number {
  if (/^\d+$/.test(text) && Number(text) <= MAX_SLOTS) return Number(text);
  throw new InvalidArgumentError(`Use a whole number from 0 to ${MAX_SLOTS}.`);
}

/** A count without evidence is a choice of whoever starts the command. */
export function warnUnvalidated(options: CapacityOptions, context: CliContext): void {
  if (options.unvalidatedSlots === undefined) return;
  printLine(
    context.stderr,
    `warning: up to ${options.unvalidatedSlots} slots are taken without evidence that they are safe here`,
  );
}

/** Of commands that need no weights. */
export function addQueueOptions(command: Command): Command {
  return command
    .option('--data-dir <dir>', 'queue and results (default: $XDG_DATA_HOME/wavepool)')
    .option('--redis <url>', 'an existing Redis; without it a private one is started');
}

export function addOutputOptions(command: Command): Command {
  return command
    .option('--json', 'print one JSON object on stdout')
    .option('--quiet', 'print failures only');
}

/** The configuration with what was typed in its place. */
export function placesOf(config: Config, options: PlaceOptions): Config {
  const { dataDir, modelsDir, redis, storage, objectRoot } = options;
  return {
    ...config,
    s3: {
      ...config.s3,
      ...(storage === undefined ? {} : { place: storage }),
      ...(objectRoot === undefined ? {} : { inputRoots: [...objectRoot] }),
    },
    ...(dataDir === undefined ? {} : { dataDir: path.resolve(dataDir) }),
    ...(modelsDir === undefined ? {} : { modelsDir: path.resolve(modelsDir) }),
    ...(redis === undefined ? {} : { redisUrl: redisUrl(redis) }),
  };
}

/** What this machine has to offer. */
export interface Machine {
  readonly cores: number;
  readonly freeBytes: number;
}

export function thisMachine(): Machine {
  return { cores: availableParallelism(), freeBytes: freemem() };
}

/** Worker processes that memory holds. */
export function fittingWorkers(freeBytes: number): number {
  return Math.floor(freeBytes / WORKER_BYTES);
}

/** Counts for what was left to us: a core for every compute thread, as far as memory goes. */
export function capacityOf(options: CapacityOptions, machine = thisMachine()): Capacity {
  const slots = options.unvalidatedSlots ?? (options.slots === 'auto' ? AUTO_SLOTS : options.slots);
  const { threads } = options;
  const fitting = Math.min(
    Math.floor(machine.cores / (slots * threads)),
    fittingWorkers(machine.freeBytes),
    MAX_AUTO_WORKERS,
  );
  return {
    slots,
    unvalidatedSlots: options.unvalidatedSlots ?? 0,
    batch: options.batch === 'auto' ? AUTO_BATCH : options.batch,
    threads,
    workers: options.workers === 'auto' ? Math.max(1, fitting) : options.workers,
  };
}

function redisUrl(text: string): string {
  parseRedisUrl(text);
  return text;
}

/** Options that several commands share, and the parsers of their values. */
import path from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Config } from '../../core/config.ts';
import { parseRawAudioFormat, RAW_CODECS, type RawAudioFormat } from '../../core/job/job.ts';
import { type ObjectPlace, parseObjectPlace } from '../../core/s3-settings.ts';
import { parseRedisUrl } from '../../queue/redis/redis-url.ts';

export const DEFAULT_MODEL = 'moonshine-tiny';
/** Finds the speech in every input. */
export const DETECTOR_MODEL = 'silero-vad';

const DATA_DIR = [
  '--data-dir <dir>',
  'queue and results (default: $XDG_DATA_HOME/wavepool)',
] as const;
const REDIS = ['--redis <url>', 'an existing Redis; without it a private one is started'] as const;
/** For every command that looks into the models directory. */
export const MODELS_DIR = [
  '--models-dir <dir>',
  'weights (default: $XDG_DATA_HOME/wavepool/models)',
] as const;

export interface PlaceOptions {
  readonly dataDir?: string;
  readonly modelsDir?: string;
  readonly redis?: string;
  readonly storage?: ObjectPlace;
  readonly objectRoot?: readonly ObjectPlace[];
}

/** For options that may be given more than once. */
export function collect(value: string, before: readonly string[]): string[] {
  return [...before, value];
}

/** The models of a repeatable `--model`, each once. */
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
  return parseWhole(1, most);
}

export function parseWhole(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`Use a whole number from ${least} to ${most}.`);
  };
}

/** Reads some of `words`, separated by commas. */
export function parseListOf<Word extends string>(words: readonly Word[]): (text: string) => Word[] {
  return (text) =>
    text.split(',').map((part) => {
      const found = words.find((word) => word === part.trim());
      if (found !== undefined) return found;
      throw new InvalidArgumentError(`Use a list of ${words.join(', ')}.`);
    });
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
    .option(...DATA_DIR)
    .option(...MODELS_DIR)
    .option(...REDIS);
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

/** For commands that need no weights. */
export function addQueueOptions(command: Command): Command {
  return command.option(...DATA_DIR).option(...REDIS);
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

/** Where the transcripts of a data directory are. */
export function resultsFolder(config: Config): string {
  return path.join(config.dataDir, 'results');
}

/** Where the server puts what is uploaded. */
export function uploadsFolder(config: Config): string {
  return path.join(config.dataDir, 'uploads');
}

function redisUrl(text: string): string {
  parseRedisUrl(text);
  return text;
}

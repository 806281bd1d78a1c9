/** `wavepool run`: files and directories become transcripts or speech segments, all in one command. */
import path from 'node:path';
import type { Command } from 'commander';
import { resolveRoots, STATE_FOLDER } from '../../bulk/scan.ts';
import { resolveObjectRoots } from '../../bulk/scan-objects.ts';
import type { Config } from '../../core/config.ts';
import { WavepoolError } from '../../core/errors.ts';
import type { RawAudioFormat } from '../../core/job/job.ts';
import type { ResultFormat } from '../../core/results/result-formats.ts';
import { isObjectAddress, type ObjectPlace, parseObjectPlace } from '../../core/s3-settings.ts';
import {
  addCapacityOptions,
  type CapacityOptions,
  warnUnvalidated,
} from '../capacity/capacity-options.ts';
import {
  addInputFormatOption,
  addOutputOptions,
  addPlaceOptions,
  addStorageOption,
  type PlaceOptions,
  placesOf,
} from '../options/options.ts';
import {
  addFormatOption,
  addTaskOptions,
  type FormatOptions,
  formatsOf,
  type TaskOptions,
  taskChoiceOf,
} from '../options/task-options.ts';
import { type RunRequest, runSession } from '../run/run-session.ts';
import type { CliContext } from '../terminal/context.ts';

interface RunOptions extends PlaceOptions, CapacityOptions, TaskOptions, FormatOptions {
  readonly out?: string;
  readonly inputFormat?: RawAudioFormat;
  readonly json?: true;
  readonly quiet?: true;
}

/** Several of these in one stream are none. */
const FILES_ONLY: ReadonlySet<ResultFormat> = new Set(['srt', 'vtt', 'tsv', 'audacity']);

const HELP = `
Without --out the results are printed on stdout. With --out they are written to a tree like that of the inputs:
talks/monday.mp3 becomes OUT/monday.txt. Files that are neither audio nor video are skipped.

With --task vad the results are the stretches in which somebody speaks: OUT/monday.json, as RTTM (--format rttm,
OUT/monday.rttm) or as a label track for Audacity (--format audacity, OUT/monday.labels.txt).

Stop a run with Ctrl-C and start the same command again: finished files are not done twice. What failed for a reason on
this machine (no ffmpeg, disk full) is tried again, a broken file is only reported again.

Examples:
  wavepool run talk.mp3
  wavepool run recordings --out transcripts
  wavepool run recordings more.flac --out transcripts --format txt,json,srt,vtt
  wavepool run calls --channels split --speakers agent,caller --out transcripts
  wavepool run recordings --task vad --out speech --format json,rttm,audacity
  wavepool run s3://calls/2026/may --out s3://transcripts/may

Exit codes: 0 all done, 1 some inputs failed, 2 usage, 3 this machine or its services, 130 interrupted.`;

export function addRunCommand(program: Command, context: CliContext): void {
  const command = program
    .command('run')
    .description('transcribe files and directories, or find the speech in them')
    .argument(
      '<path...>',
      'audio or video files, directories of them, or objects (s3://BUCKET/PREFIX)',
    )
    .option(
      '--out <dir>',
      'write the results here (or s3://BUCKET/PREFIX), and remember what is finished',
    );
  addFormatOption(command);
  addTaskOptions(command);
  addInputFormatOption(command);
  addCapacityOptions(command);
  addPlaceOptions(command);
  addStorageOption(command);
  addOutputOptions(command);
  command.addHelpText('after', HELP).action(async (paths: string[], options: RunOptions) => {
    warnUnvalidated(options, context);
    context.exitCode = await runSession(await requestOf(paths, options, context), context);
  });
}

/** @throws {WavepoolError} INPUT_NOT_FOUND, INVALID_REQUEST, TASK_UNSUPPORTED, OPTION_UNSUPPORTED */
async function requestOf(
  paths: readonly string[],
  options: RunOptions,
  context: CliContext,
): Promise<RunRequest> {
  const config = placesOf(context.config, options);
  const { roots, objects } = await inputsOf(paths, config);
  const [object, ...more] = objects;
  const single =
    object === undefined
      ? roots.files.length === 1 && roots.directories.length === 0
      : object.name !== undefined && more.length === 0;
  const { out, json = false } = options;
  const formats = formatsOf(options);
  if (out === undefined) checkPrintable(formats, single, json);
  const task = taskChoiceOf(options);
  return {
    roots,
    objects,
    out: out === undefined ? undefined : outputOf(out),
    formats,
    single,
    ...task,
    rawFormat: options.inputFormat,
    watch: undefined,
    capacity: options,
    config: withObjects(config, objects, out),
    json,
    quiet: options.quiet === true,
  };
}

/** @throws {WavepoolError} INPUT_NOT_FOUND, INVALID_REQUEST, STORAGE_FORBIDDEN, STORAGE_UNAVAILABLE, STORAGE_UNSUITABLE */
async function inputsOf(
  paths: readonly string[],
  { s3 }: Config,
): Promise<Pick<RunRequest, 'roots' | 'objects'>> {
  const addresses = paths.filter(isObjectAddress);
  if (addresses.length === 0) return { roots: await resolveRoots(paths), objects: [] };
  if (addresses.length < paths.length) {
    throw new WavepoolError('INVALID_REQUEST', 'give either files and directories or s3:// alone');
  }
  const objects = await resolveObjectRoots(addresses, s3);
  return { roots: { files: [], directories: [] }, objects };
}

/** @throws {WavepoolError} INVALID_REQUEST */
function outputOf(out: string): NonNullable<RunRequest['out']> {
  return isObjectAddress(out)
    ? { kind: 'bucket', place: parseObjectPlace(out) }
    : { kind: 'folder', path: path.resolve(out) };
}

/** The workers may read what was named; results are kept beside the outputs, unless a place for them is configured. */
function withObjects(
  config: Config,
  objects: RunRequest['objects'],
  out: string | undefined,
): Config {
  const { s3 } = config;
  const inputRoots = [...s3.inputRoots, ...objects.map(({ place }) => place)];
  const isBucket = s3.place === undefined && out !== undefined && isObjectAddress(out);
  const place = isBucket ? stateBelow(parseObjectPlace(out)) : s3.place;
  return { ...config, s3: { ...s3, inputRoots, place } };
}

function stateBelow({ bucket, prefix }: ObjectPlace): ObjectPlace {
  return { bucket, prefix: `${prefix}${STATE_FOLDER}/` };
}

/** @throws {WavepoolError} INVALID_REQUEST when stdout cannot carry what is asked for */
function checkPrintable(formats: readonly ResultFormat[], single: boolean, json: boolean): void {
  if (json)
    throw new WavepoolError('INVALID_REQUEST', '--json prints the summary on stdout: give --out');
  if (formats.length > 1)
    throw new WavepoolError('INVALID_REQUEST', 'more than one --format needs --out');
  const [format] = formats;
  if (!single && format !== undefined && FILES_ONLY.has(format))
    throw new WavepoolError('INVALID_REQUEST', `${format} for more than one file needs --out`);
}

/** `wavepool watch`: transcribes what comes into a directory until it is told to stop. */
import path from 'node:path';
import { type Command, Option } from 'commander';
import { resolveRoots } from '../../bulk/scan.ts';
import { WavepoolError } from '../../core/errors.ts';
import type { RawAudioFormat } from '../../core/job/job.ts';
import {
  addCapacityOptions,
  type CapacityOptions,
  warnUnvalidated,
} from '../capacity/capacity-options.ts';
import {
  addInputFormatOption,
  addPlaceOptions,
  type PlaceOptions,
  parseDuration,
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

const DEFAULT_STABLE_MS = 10_000;

interface WatchOptions extends PlaceOptions, CapacityOptions, TaskOptions, FormatOptions {
  readonly out: string;
  readonly stable: number;
  readonly inputFormat?: RawAudioFormat;
  readonly json?: true;
  readonly quiet?: true;
}

const HELP = `
A file is transcribed once nobody writes it any more: its size and time of change have stood still for --stable, and no
process has it open for writing (where the system tells). It is transcribed again when it changes. Sub-folders are watched,
too. Stop with Ctrl-C: running work is finished. The same command later goes on with what has come in meanwhile.

Exit codes: 0 stopped as asked, 2 usage, 3 this machine or its services, 130 stopped at once.`;

export function addWatchCommand(program: Command, context: CliContext): void {
  const command = program
    .command('watch')
    .description('transcribe what comes into a directory, or find the speech in it')
    .argument('<dir>', 'is watched, with everything below it')
    .requiredOption('--out <dir>', 'write the results here, and remember what is finished')
    .addOption(
      new Option('--stable <time>', 'how long a file must stand still')
        .argParser(parseDuration)
        .default(DEFAULT_STABLE_MS, '10s'),
    );
  addFormatOption(command);
  addTaskOptions(command);
  addInputFormatOption(command);
  addCapacityOptions(command);
  addPlaceOptions(command)
    .option('--json', 'print one JSON object per input on stdout')
    .option('--quiet', 'print failures only')
    .addHelpText('after', HELP)
    .action(async (directory: string, options: WatchOptions) => {
      warnUnvalidated(options, context);
      context.exitCode = await runSession(await requestOf(directory, options, context), context);
    });
}

/** @throws {WavepoolError} INPUT_NOT_FOUND, INVALID_REQUEST, TASK_UNSUPPORTED, OPTION_UNSUPPORTED */
async function requestOf(
  directory: string,
  options: WatchOptions,
  context: CliContext,
): Promise<RunRequest> {
  const roots = await resolveRoots([directory]);
  if (roots.files.length > 0)
    throw new WavepoolError('INVALID_REQUEST', `${directory} is not a directory`);
  const task = taskChoiceOf(options);
  const config = placesOf(context.config, options);
  return {
    roots,
    objects: [],
    out: { kind: 'folder', path: path.resolve(options.out) },
    formats: formatsOf(options),
    single: false,
    ...task,
    rawFormat: options.inputFormat,
    watch: { stableMs: options.stable },
    capacity: options,
    config,
    json: options.json === true,
    quiet: options.quiet === true,
  };
}

/** `wavepool run`: files and directories become transcripts, all in one command. */
import path from 'node:path';
import type { Command } from 'commander';
import { Option } from 'commander';
import { resolveRoots } from '../bulk/scan.ts';
import { WavepoolError } from '../core/errors.ts';
import type { RawAudioFormat } from '../core/job.ts';
import type { TranscriptFormat } from '../core/transcript-formats.ts';
import { TRANSCRIPT_FORMATS } from '../core/transcript-formats.ts';
import { chooseCapacity } from './auto-slots.ts';
import type { CliContext } from './context.ts';
import type { CapacityOptions, PlaceOptions } from './options.ts';
import {
  addCapacityOptions,
  addInputFormatOption,
  addOutputOptions,
  addPlaceOptions,
  DEFAULT_MODEL,
  parseFormats,
  placesOf,
} from './options.ts';
import type { RunRequest } from './run-session.ts';
import { runSession } from './run-session.ts';

interface RunOptions extends PlaceOptions, CapacityOptions {
  readonly out?: string;
  readonly format: TranscriptFormat[];
  readonly model: string;
  readonly inputFormat?: RawAudioFormat;
  readonly json?: true;
  readonly quiet?: true;
}

const HELP = `
Without --out the transcripts are printed on stdout. With --out they are written to a tree like that of the inputs:
talks/monday.mp3 becomes OUT/monday.txt. Files that are neither audio nor video are skipped.

Stop a run with Ctrl-C and start the same command again: finished files are not done twice. What failed for a reason on
this machine (no ffmpeg, disk full) is tried again, a broken file is only reported again.

Examples:
  wavepool run talk.mp3
  wavepool run recordings --out transcripts
  wavepool run recordings more.flac --out transcripts --format txt,json,srt,vtt

Exit codes: 0 all done, 1 some inputs failed, 2 usage, 3 this machine or its services, 130 interrupted.`;

export function addRunCommand(program: Command, context: CliContext): void {
  const command = program
    .command('run')
    .description('transcribe files and directories')
    .argument('<path...>', 'audio or video files, or directories of them')
    .option('--out <dir>', 'write the transcripts here, and remember what is finished')
    .addOption(
      new Option('--format <list>', `comma-separated: ${TRANSCRIPT_FORMATS.join(', ')}`)
        .argParser(parseFormats)
        .default(['txt'], 'txt'),
    )
    .option('--model <id>', 'what transcribes; see `wavepool models list`', DEFAULT_MODEL);
  addInputFormatOption(command);
  addCapacityOptions(command);
  addPlaceOptions(command);
  addOutputOptions(command);
  command.addHelpText('after', HELP).action(async (paths: string[], options: RunOptions) => {
    context.exitCode = await runSession(await requestOf(paths, options, context), context);
  });
}

/** @throws {WavepoolError} INPUT_NOT_FOUND, INVALID_REQUEST */
async function requestOf(
  paths: readonly string[],
  options: RunOptions,
  context: CliContext,
): Promise<RunRequest> {
  const roots = await resolveRoots(paths);
  const single = roots.files.length === 1 && roots.directories.length === 0;
  const { out, format: formats, json = false } = options;
  if (out === undefined) checkPrintable(formats, single, json);
  return {
    roots,
    out: out === undefined ? undefined : path.resolve(out),
    formats,
    single,
    model: options.model,
    rawFormat: options.inputFormat,
    watch: undefined,
    capacity: await chooseCapacity(options, placesOf(context.config, options), context),
    config: placesOf(context.config, options),
    json,
    quiet: options.quiet === true,
  };
}

/** @throws {WavepoolError} INVALID_REQUEST when stdout cannot carry what is asked for */
function checkPrintable(
  formats: readonly TranscriptFormat[],
  single: boolean,
  json: boolean,
): void {
  if (json)
    throw new WavepoolError('INVALID_REQUEST', '--json prints the summary on stdout: give --out');
  if (formats.length > 1)
    throw new WavepoolError('INVALID_REQUEST', 'more than one --format needs --out');
  const [format] = formats;
  if (!single && (format === 'srt' || format === 'vtt'))
    throw new WavepoolError('INVALID_REQUEST', `${format} for more than one file needs --out`);
}

/** What is asked of the inputs: the task, the model that does it, and how it does it. */
import type { Command } from 'commander';
import { InvalidArgumentError, Option } from 'commander';
import type { RunJobSettings } from '../../bulk/run-directory.ts';
import { WavepoolError } from '../../core/errors.ts';
import { JobTask, type ModelId } from '../../core/job/job.ts';
import {
  assertFormats,
  defaultFormat,
  FORMATS_OF_TASK,
  isResultFormat,
  RESULT_FORMATS,
  type ResultFormat,
} from '../../core/results/result-formats.ts';
import { assertModelDoes, jobTaskOf } from '../../core/worker/model-task.ts';
import { CATALOGUE } from '../../models/catalogue/catalogue.ts';
import { DETECTOR_MODEL } from '../model-access.ts';
import { DEFAULT_MODEL, parseDuration } from './options.ts';
import {
  addTranscribeOptions,
  assertCatalogueSpeaks,
  type SpokenOptions,
  spokenOptionsOf,
} from './transcribe-options.ts';

/** What does a task when nothing is said. */
export const DEFAULT_MODELS: Readonly<Record<JobTask, ModelId>> = {
  transcribe: DEFAULT_MODEL,
  vad: DETECTOR_MODEL,
};

export interface TaskOptions extends SpokenOptions {
  readonly task: JobTask;
  readonly split?: true;
  readonly model?: string;
  readonly vadThreshold?: number;
  readonly vadMinSpeech?: number;
  readonly vadMinSilence?: number;
  readonly vadPad?: number;
}

export interface FormatOptions {
  readonly format?: ResultFormat[];
}

/** What every job is told. */
export interface TaskChoice {
  readonly model: ModelId;
  readonly job: RunJobSettings;
}

/** What models of the catalogue do. */
export const CATALOGUE_TASKS: Readonly<Record<ModelId, JobTask>> = Object.fromEntries(
  CATALOGUE.flatMap(({ id, task }) => {
    const does = jobTaskOf(task);
    return does === undefined ? [] : [[id, does]];
  }),
);

export function addTaskOptions(command: Command): Command {
  const longest = parseDurationUpTo(60_000);
  command
    .addOption(
      new Option('--task <name>', 'transcribe, or vad: only where somebody speaks')
        .choices(JobTask.options)
        .default('transcribe'),
    )
    .option(
      '--model <id>',
      `what does it; see \`wavepool models list\` (default: "${DEFAULT_MODEL}", "${DETECTOR_MODEL}" for vad)`,
    );
  return addTranscribeOptions(command)
    .option('--split', 'let all workers recognize parts of one long input; the text is the same')
    .addOption(
      new Option(
        '--vad-threshold <p>',
        'speech begins at this probability (default: 0.5)',
      ).argParser(parseProbability),
    )
    .addOption(
      new Option(
        '--vad-min-speech <time>',
        'shorter stretches are no speech (default: 250ms)',
      ).argParser(longest),
    )
    .addOption(
      new Option(
        '--vad-min-silence <time>',
        'shorter pauses end no segment (default: 400ms)',
      ).argParser(longest),
    )
    .addOption(
      new Option(
        '--vad-pad <time>',
        'kept around a segment, at most half of --vad-min-silence (default: 200ms)',
      ).argParser(parseDurationUpTo(5_000)),
    );
}

export function addFormatOption(command: Command): Command {
  const { transcribe, vad } = FORMATS_OF_TASK;
  return command.addOption(
    new Option(
      '--format <list>',
      `comma-separated: ${transcribe.join(', ')}; for vad ${vad.join(', ')} (default: "${defaultFormat('transcribe')}", "${defaultFormat('vad')}" for vad)`,
    ).argParser(parseFormats),
  );
}

/** @throws {WavepoolError} TASK_UNSUPPORTED, OPTION_UNSUPPORTED, INVALID_REQUEST */
export function taskChoiceOf(options: TaskOptions): TaskChoice {
  const { task, model = DEFAULT_MODELS[task] } = options;
  assertModelDoes(task, model, CATALOGUE_TASKS[model]);
  const { vadThreshold, vadMinSpeech, vadMinSilence, vadPad } = options;
  const vad = {
    ...(vadThreshold === undefined ? {} : { threshold: vadThreshold }),
    ...(vadMinSpeech === undefined ? {} : { minSpeechMs: vadMinSpeech }),
    ...(vadMinSilence === undefined ? {} : { minSilenceMs: vadMinSilence }),
    ...(vadPad === undefined ? {} : { padMs: vadPad }),
  };
  const spoken = spokenOptionsOf(task, options);
  assertCatalogueSpeaks(model, spoken);
  // Nothing at all where nothing was said: other options are new work.
  const all = { ...spoken, ...(Object.keys(vad).length === 0 ? {} : { vad }) };
  return { model, job: jobOf(task, all, options.split) };
}

function jobOf(task: JobTask, options: object, split: true | undefined): RunJobSettings {
  if (split === undefined) return { task, options };
  if (task === 'transcribe') return { task, options, split };
  throw new WavepoolError('OPTION_UNSUPPORTED', '--split is for --task transcribe');
}

/** @throws {WavepoolError} INVALID_REQUEST for a format that the task does not have */
export function formatsOf({ task, format }: TaskOptions & FormatOptions): readonly ResultFormat[] {
  const formats = format ?? [defaultFormat(task)];
  assertFormats(task, formats);
  return formats;
}

/** A comma-separated list, each format once. */
function parseFormats(text: string): ResultFormat[] {
  const names = text.split(',').map((name) => name.trim());
  const unknown = names.find((name) => !isResultFormat(name));
  if (unknown !== undefined)
    throw new InvalidArgumentError(`Use a list of ${RESULT_FORMATS.join(', ')}.`);
  return [...new Set(names.filter(isResultFormat))];
}

function parseProbability(text: string): number {
  const value = Number(text);
  if (/^\d*\.?\d+$/.test(text) && value > 0 && value < 1) return value;
  throw new InvalidArgumentError('Use a number between 0 and 1.');
}

function parseDurationUpTo(mostMs: number): (text: string) => number {
  return (text) => {
    const ms = parseDuration(text);
    if (ms <= mostMs) return ms;
    throw new InvalidArgumentError(`Use a time of at most ${mostMs / 1_000}s.`);
  };
}

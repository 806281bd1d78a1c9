/** What is asked of the inputs: the task, the model that does it, what a transcript is to hold, and the formats of results. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { RunJobSettings } from '../../bulk/run-directory.ts';
import { WavepoolError } from '../../core/errors.ts';
import { JobTask, type ModelId, TranscribeOptions } from '../../core/job/job.ts';
import {
  assertFormats,
  defaultFormat,
  FORMATS_OF_TASK,
  RESULT_FORMATS,
  type ResultFormat,
} from '../../core/results/result-formats.ts';
import { assertModelDoes, jobTaskOf, spokenLanguage } from '../../core/worker/model-abilities.ts';
import { CATALOGUE } from '../../models/catalogue/catalogue.ts';
import { DEFAULT_MODEL, DETECTOR_MODEL, parseDuration, parseListOf } from './options.ts';

/** What does a task when nothing is said. */
export const DEFAULT_MODELS: Readonly<Record<JobTask, ModelId>> = {
  transcribe: DEFAULT_MODEL,
  vad: DETECTOR_MODEL,
};

/** Options of transcripts, as they were typed. */
export interface SpokenOptions {
  readonly language?: string;
  readonly translate?: true;
  readonly prompt?: string;
  readonly words?: true;
  readonly channels?: TranscribeOptions['channels'];
  readonly speakers?: string[];
}

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

function addTranscribeOptions(command: Command): Command {
  const { channels } = TranscribeOptions.shape;
  return command
    .addOption(
      new Option(
        '--language <tag>',
        'what is spoken, such as en (default: the model finds out, once for each input)',
      ).argParser(parsedBy('language', 'Use a language tag such as en or pt-BR.')),
    )
    .option('--translate', 'write English, whatever is spoken')
    .addOption(
      new Option(
        '--prompt <text>',
        'names and words that may occur, or what was said before',
      ).argParser(parsedBy('prompt', 'Use at most 4096 characters.')),
    )
    .option('--words', 'with the time of every word')
    .addOption(
      new Option(
        '--channels <how>',
        'mix: one voice track; split: each channel by itself, as call recordings have them (default: mix)',
      ).choices(channels.unwrap().options),
    )
    .addOption(
      new Option(
        '--speakers <list>',
        'who is on each channel, such as agent,caller (default: channel 1, channel 2, …)',
      ).argParser(parseSpeakers),
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

/**
 * Only what was said.
 * @throws {WavepoolError} INVALID_REQUEST for what does not go together
 */
export function spokenOptionsOf(task: JobTask, options: SpokenOptions): SpokenOptions {
  const { language, translate, prompt, words, channels, speakers } = options;
  const given = { language, translate, prompt, words, channels, speakers };
  const said = Object.entries(given).filter(([, value]) => value !== undefined);
  const [first] = said;
  if (task !== 'transcribe' && first !== undefined)
    throw new WavepoolError('INVALID_REQUEST', `--${first[0]} is for --task transcribe`);
  if (speakers !== undefined && channels !== 'split')
    throw new WavepoolError('INVALID_REQUEST', '--speakers needs --channels split');
  return Object.fromEntries(said);
}

/**
 * What the catalogue knows without the model.
 * @throws {WavepoolError} OPTION_UNSUPPORTED
 */
function assertCatalogueSpeaks(model: ModelId, options: SpokenOptions): void {
  const languages = CATALOGUE.find(({ id }) => id === model)?.languages ?? [];
  if (languages.length === 0) return;
  spokenLanguage(options, model, { languages, optionNames: [] });
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

/** Each format once. */
function parseFormats(text: string): ResultFormat[] {
  return [...new Set(parseListOf(RESULT_FORMATS)(text))];
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

function parsedBy(option: 'language' | 'prompt', hint: string): (text: string) => string {
  return (text) => {
    const parsed = TranscribeOptions.shape[option].safeParse(text);
    if (parsed.success && parsed.data !== undefined) return parsed.data;
    throw new InvalidArgumentError(hint);
  };
}

function parseSpeakers(text: string): string[] {
  const parsed = TranscribeOptions.shape.speakers.safeParse(text.split(','));
  if (parsed.success && parsed.data !== undefined) return parsed.data;
  throw new InvalidArgumentError('Use up to 8 names, separated by commas.');
}

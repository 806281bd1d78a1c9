/** What a transcript is to hold: the language, words with times, who speaks; and whether the model can do that. */
import type { Command } from 'commander';
import { InvalidArgumentError, Option } from 'commander';
import type { Config } from '../../core/config.ts';
import { WavepoolError } from '../../core/errors.ts';
import { type JobTask, type ModelId, TranscribeOptions } from '../../core/job/job.ts';
import { recognizerOptions, spokenLanguage } from '../../core/worker/model-options.ts';
import { NativeEngine } from '../../engine/native-engine.ts';
import { CATALOGUE } from '../../models/catalogue/catalogue.ts';
import type { InstalledModel } from '../../models/installed/installed-models.ts';
import type { Capacity } from './options.ts';
import type { TaskChoice } from './task-options.ts';

/** As they were typed. */
export interface SpokenOptions {
  readonly language?: string;
  readonly translate?: true;
  readonly prompt?: string;
  readonly words?: true;
  readonly channels?: TranscribeOptions['channels'];
  readonly speakers?: string[];
}

export function addTranscribeOptions(command: Command): Command {
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
export function assertCatalogueSpeaks(model: ModelId, options: SpokenOptions): void {
  const languages = CATALOGUE.find(({ id }) => id === model)?.languages ?? [];
  if (languages.length === 0) return;
  spokenLanguage(options, model, { languages, optionNames: [] });
}

/**
 * What an installed model says of itself. Where nothing special is asked for, the addon is not even loaded.
 * @throws {WavepoolError} OPTION_UNSUPPORTED, or why the model cannot be read
 */
export async function assertModelHas(
  { path, entry }: InstalledModel,
  { job, capacity }: TaskChoice & { readonly capacity: () => Promise<Capacity> },
  { addonPath }: Pick<Config, 'addonPath'>,
): Promise<void> {
  if (job.task === 'vad') return;
  const { language, translate, prompt, words } = job.options ?? {};
  const wishes = { language, translate, prompt, words };
  if (Object.values(wishes).every((wish) => wish === undefined)) return;
  const { threads, batch: maxBatch } = await capacity();
  const engine = new NativeEngine({ addon: addonPath });
  const { info } = await engine.planModel(path, { mode: 'offline', threads, maxBatch });
  recognizerOptions(wishes, entry.id, info);
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

/** What a model can do: which task, in which languages, with which options; and how its recognizer is told of them. */
import { WavepoolError } from '../errors.ts';
import type { JobTask, ModelId, TranscribeOptions } from '../job/job.ts';

/** What a model must be for a task, in the words of its weights and of `ModelStatus.task`. */
const MODEL_TASKS: Readonly<Record<JobTask, string>> = { transcribe: 'asr', vad: 'vad' };

/** What a model of this kind does; undefined for a kind that this version does not know. */
export function jobTaskOf(modelTask: string): JobTask | undefined {
  const tasks = Object.keys(MODEL_TASKS) as JobTask[]; // Its keys are the tasks.
  return tasks.find((task) => MODEL_TASKS[task] === modelTask);
}

/** @throws {WavepoolError} TASK_UNSUPPORTED when the model is known to do another task */
export function assertModelDoes(
  task: JobTask,
  model: ModelId,
  modelDoes: JobTask | undefined,
): void {
  if (modelDoes === undefined || modelDoes === task) return;
  throw new WavepoolError('TASK_UNSUPPORTED', `${model} is for ${modelDoes}, not for ${task}`);
}

/** What a model tells of itself: native/framework/sessions/session.h says what each option means. */
export interface ModelAbilities {
  /** ISO 639-1. */
  readonly languages: readonly string[];
  readonly optionNames: readonly string[];
}

/** By the names that recognizers take. */
export interface RecognizerOptions {
  readonly language?: string;
  readonly translate?: true;
  readonly prompt?: string;
  readonly words?: true;
}

/** What is asked for; what is left out or undefined is not. */
export type RecognitionWishes = {
  readonly [Name in 'language' | 'translate' | 'prompt' | 'words']?:
    | TranscribeOptions[Name]
    | undefined;
};

const MOST_LANGUAGES_NAMED = 12;

/**
 * What the recognizer is told: only what was asked for. A language that it recognizes without having a choice is not told.
 * @throws {WavepoolError} OPTION_UNSUPPORTED, with what is possible
 */
export function recognizerOptions(
  wishes: RecognitionWishes,
  model: ModelId,
  abilities: ModelAbilities,
): RecognizerOptions {
  const has = (name: string) => abilities.optionNames.includes(name);
  const refuse = (cannot: string): never => {
    throw new WavepoolError('OPTION_UNSUPPORTED', `${model} ${cannot}`);
  };
  const { translate = false, prompt = '', words = false } = wishes;
  const language = spokenLanguage(wishes, model, abilities);
  if (translate && !has('translate')) refuse('does not translate');
  if (prompt !== '' && !has('prompt')) refuse('takes no prompt');
  if (words && !has('words')) refuse('gives no times of words, only of segments');
  return {
    ...(language === undefined || !has('language') ? {} : { language }),
    ...(translate ? { translate } : {}),
    ...(prompt === '' ? {} : { prompt }),
    ...(words ? { words } : {}),
  };
}

/**
 * The language that was asked for, by the model's name for it: `en-US` is `en` where only that is known.
 * @throws {WavepoolError} OPTION_UNSUPPORTED, with the languages that there are
 */
export function spokenLanguage(
  { language }: RecognitionWishes,
  model: ModelId,
  { languages, optionNames }: ModelAbilities,
): string | undefined {
  if (language === undefined) return undefined;
  const known = knownLanguage(language, languages);
  if (known !== undefined) return known;
  // A model that takes a language without saying which it knows decides for itself.
  if (languages.length === 0 && optionNames.includes('language')) return language;
  const there = languages.length === 0 ? 'takes no language' : `recognizes ${named(languages)}`;
  throw new WavepoolError('OPTION_UNSUPPORTED', `${model} ${there}, not ${language}`);
}

/** Undefined when the tag is none of them. */
export function knownLanguage(tag: string, languages: readonly string[]): string | undefined {
  const [primary = tag] = tag.split('-');
  return [tag, primary].find((each) => languages.includes(each));
}

/** Whether the model finds out what is spoken when nobody tells. */
export function detectsLanguage({ languages, optionNames }: ModelAbilities): boolean {
  return optionNames.includes('language') && languages.length > 1;
}

function named(languages: readonly string[]): string {
  const first = languages.slice(0, MOST_LANGUAGES_NAMED).join(', ');
  const more = languages.length - MOST_LANGUAGES_NAMED;
  return more > 0 ? `${first} and ${more} more languages` : first;
}

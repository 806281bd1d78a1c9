/** Chooses the queue for the jobs of a request: that of a model which can do their task. */

import { WavepoolError } from '../../core/errors.ts';
import type { JobSettings } from '../../core/http/api.ts';
import {
  type JobTask,
  ModelId,
  type OmitEach,
  type TranscribeOptions,
} from '../../core/job/job.ts';
import {
  assertModelDoes,
  jobTaskOf,
  recognizerOptions,
} from '../../core/worker/model-abilities.ts';
import type { ModelStatus } from '../../core/worker/status.ts';
import type { AudioQueue } from '../../queue/audio-queue.ts';
import { readPresence } from '../../queue/fleet/presence.ts';
import type { QueueRegistry } from '../../queue/queue-registry.ts';
import type { Services } from '../services.ts';
import type { HttpSettings } from '../settings.ts';

/** @throws {WavepoolError} MODEL_UNKNOWN, TASK_UNSUPPORTED, OPTION_UNSUPPORTED, REDIS_UNAVAILABLE, REDIS_UNSUITABLE */
export async function queueForTask(
  wanted: OmitEach<JobSettings, Exclude<keyof JobSettings, 'task' | 'model' | 'options'>>,
  { queues, settings }: Pick<Services, 'queues' | 'settings'>,
): Promise<AudioQueue> {
  const { task } = wanted;
  const chosen = wanted.model ?? defaultModelFor(task, settings);
  const queue = await queues.queueOf(chosen);
  // When nothing is known of the model yet, the job is added and its worker checks the task.
  const known = settings.modelTasks[chosen];
  const asksMore = wanted.task === 'transcribe' && asksForAbilities(wanted.options);
  const published =
    known === undefined || asksMore ? await publishedModel(chosen, queues) : undefined;
  assertModelDoes(task, chosen, known ?? jobTaskOf(published?.task ?? ''));
  const { languages = null, optionNames = null } = published ?? {};
  if (wanted.task === 'transcribe' && languages !== null && optionNames !== null) {
    recognizerOptions(wanted.options, chosen, { languages, optionNames });
  }
  return queue;
}

/**
 * The model that a client means by a name, which may be an alias; without a name, the server's default model.
 * @throws {WavepoolError} MODEL_UNKNOWN
 */
export function modelNamed(
  name: string | undefined,
  { defaultModel, modelAliases }: HttpSettings,
): ModelId {
  const wanted = name ?? defaultModel;
  const known = ModelId.safeParse(modelAliases[wanted] ?? wanted);
  if (!known.success) throw new WavepoolError('MODEL_UNKNOWN', wanted);
  return known.data;
}

/** Whether the job asks for something that not every model can do. */
function asksForAbilities({ language, translate, prompt, words }: TranscribeOptions): boolean {
  return language !== undefined || prompt !== undefined || translate || words;
}

/** The server's default model transcribes. Another task goes to it if it can do it, or else to the first model that can. */
function defaultModelFor(task: JobTask, { defaultModel, modelTasks }: HttpSettings): ModelId {
  if (task === 'transcribe' || modelTasks[defaultModel] === task) return defaultModel;
  const able = Object.entries(modelTasks).find(([, does]) => does === task);
  return able?.[0] ?? defaultModel;
}

/** The state of the model as published by a worker that has loaded it. */
async function publishedModel(
  model: ModelId,
  { connection }: QueueRegistry,
): Promise<ModelStatus | undefined> {
  const workers = await readPresence(connection);
  const entries = workers.flatMap(({ runtime }) => runtime.models);
  return entries.find(({ id, task }) => id === model && task !== null);
}

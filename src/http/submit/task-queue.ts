/** Which queue a request's jobs go to: that of a model which does their task. */
import type { JobSettings } from '../../core/http/api.ts';
import type { JobTask, ModelId, OmitEach, TranscribeOptions } from '../../core/job/job.ts';
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
  // What nobody knows of a model, its worker finds out.
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

/** Most jobs ask for nothing that a model might not have. */
function asksForAbilities({ language, translate, prompt, words }: TranscribeOptions): boolean {
  return language !== undefined || prompt !== undefined || translate || words;
}

/** The server's model is what transcribes; other tasks go to it when it does them, else to the first model that does. */
function defaultModelFor(task: JobTask, { defaultModel, modelTasks }: HttpSettings): ModelId {
  if (task === 'transcribe' || modelTasks[defaultModel] === task) return defaultModel;
  const able = Object.entries(modelTasks).find(([, does]) => does === task);
  return able?.[0] ?? defaultModel;
}

/** As a worker that has loaded the model tells it. */
async function publishedModel(
  model: ModelId,
  { connection }: QueueRegistry,
): Promise<ModelStatus | undefined> {
  const workers = await readPresence(connection);
  const entries = workers.flatMap(({ runtime }) => runtime.models);
  return entries.find(({ id, task }) => id === model && task !== null);
}

/** Which queue a request's jobs go to: that of a model which does their task. */
import type { JobSettings } from '../core/api.ts';
import type { JobTask, ModelId } from '../core/job.ts';
import { assertModelDoes, jobTaskOf } from '../core/model-task.ts';
import type { AudioQueue } from '../queue/audio-queue.ts';
import { readPresence } from '../queue/presence.ts';
import type { QueueRegistry } from '../queue/queue-registry.ts';
import type { Services } from './services.ts';
import type { HttpSettings } from './settings.ts';

/** @throws {WavepoolError} MODEL_UNKNOWN, TASK_UNSUPPORTED, REDIS_UNAVAILABLE, REDIS_UNSUITABLE */
export async function queueForTask(
  { task, model }: Pick<JobSettings, 'task' | 'model'>,
  { queues, settings }: Pick<Services, 'queues' | 'settings'>,
): Promise<AudioQueue> {
  const chosen = model ?? defaultModelFor(task, settings);
  const queue = await queues.queueOf(chosen);
  // What nobody knows of a model, its worker finds out.
  assertModelDoes(
    task,
    chosen,
    settings.modelTasks[chosen] ?? (await publishedTask(chosen, queues)),
  );
  return queue;
}

/** The server's model is what transcribes; other tasks go to it when it does them, else to the first model that does. */
function defaultModelFor(task: JobTask, { defaultModel, modelTasks }: HttpSettings): ModelId {
  if (task === 'transcribe' || modelTasks[defaultModel] === task) return defaultModel;
  const able = Object.entries(modelTasks).find(([, does]) => does === task);
  return able?.[0] ?? defaultModel;
}

/** As a worker that has loaded the model tells it. */
async function publishedTask(
  model: ModelId,
  { connection }: QueueRegistry,
): Promise<JobTask | undefined> {
  const workers = await readPresence(connection);
  const entries = workers.flatMap(({ runtime }) => runtime.models);
  const loaded = entries.find(({ id, task }) => id === model && task !== null);
  return jobTaskOf(loaded?.task ?? '');
}

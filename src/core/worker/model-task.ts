/** Which models do which tasks. */
import { WavepoolError } from '../errors.ts';
import type { JobTask, ModelId } from '../job/job.ts';

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

import type { LoadedModel, ModelInfo, TaskState } from '../engine.ts';

/** What a request needs of a model before its first batch. */
export interface PreparedModel {
  readonly info: ModelInfo;
  /**
   * A fresh one for a task that keeps state. It belongs to the request, not to the pool: it stays valid when the model
   * is unloaded and loaded again, and under another configuration of the same family.
   */
  readonly state: TaskState | undefined;
}

export function prepared(model: LoadedModel): PreparedModel {
  const { info } = model;
  return { info, state: info.stateful ? model.createState() : undefined };
}

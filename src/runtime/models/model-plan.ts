/** What a model will need, told from the metadata of its file: no weights are read and no session is made. */
import type { ModelInfo, PoolOptions } from '../engine.ts';

export interface ModelPlan {
  readonly info: ModelInfo;
  /** Sessions the family supports for these options, 1…16. */
  readonly capacity: number;
  /** Resident bytes of the weights, once per process. */
  readonly weightBytes: number;
  /** Private bytes of one session for this batch size and the longest segment. */
  readonly sessionBytes: number;
}

export interface ModelPlanner {
  /** @throws {WavepoolError} INPUT_NOT_FOUND, MODEL_FILE_INVALID, INVALID_REQUEST */
  planModel(path: string, options: Omit<PoolOptions, 'slots'>): Promise<ModelPlan>;
}

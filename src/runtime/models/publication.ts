/** A loaded model with its pool: made privately, published whole, freed sessions before weights. */
import { WavepoolError } from '../../core/errors.ts';
import type {
  Engine,
  LoadedModel,
  ModelInfo,
  PoolOptions,
  SessionPool,
  TaskState,
} from '../engine.ts';
import { type ModelConfiguration, poolOptions } from './model-configuration.ts';

export interface Publication {
  readonly model: LoadedModel;
  readonly pool: SessionPool;
}

/** Sessions and weights that nobody sees yet; whatever fails, nothing of them is left behind. */
export async function loadPrivately(
  engine: Engine,
  configuration: ModelConfiguration,
): Promise<Publication> {
  const model = await engine.loadModel(configuration.path);
  try {
    return { model, pool: await createPool(model, poolOptions(configuration)) };
  } catch (thrown) {
    await model.close();
    throw thrown;
  }
}

async function createPool(model: LoadedModel, options: PoolOptions): Promise<SessionPool> {
  const pool = await model.createPool(options);
  if (pool.size === options.slots) return pool;
  await pool.close();
  throw new WavepoolError('INTERNAL', `asked for ${options.slots} sessions, got ${pool.size}`);
}

/** Sessions die first; the weights go also when a session's end fails. */
export async function release({ model, pool }: Publication): Promise<void> {
  try {
    await pool.close();
  } finally {
    await model.close();
  }
}

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

/** The capacity that a primary session of these options advertises: one session is made, asked and destroyed. */
export async function probeCapacity(
  model: LoadedModel,
  configuration: ModelConfiguration,
): Promise<number> {
  const pool = await model.createPool({ ...poolOptions(configuration), slots: 1 });
  try {
    return pool.capacity;
  } finally {
    await pool.close();
  }
}

/** Bytes of the weights and of all sessions, as the family accounts for them. */
export function residentBytes({ model, pool }: Publication): number {
  return pool.sessionBytes.reduce((sum, bytes) => sum + bytes, model.info.weightBytes);
}

/** How much memory a load will take, told before it begins. */
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { type ModelConfiguration, poolOptions } from './model-configuration.ts';
import type { ModelPlanner } from './model-plan.ts';

/** Room for sessions and for what loading needs on the way, where nothing better is known. */
const SPREAD = 1.5;
const SESSIONS_BYTES = 128 * 1024 ** 2;

/** Bytes of a load, or undefined where they cannot be told (the guard is skipped then). */
export type MemoryEstimate = (configuration: ModelConfiguration) => Promise<number | undefined>;

/** Weights once, a session per slot, as the family plans them. */
export function plannedBytes(planner: ModelPlanner): MemoryEstimate {
  return async (configuration) => {
    const { slots, ...options } = poolOptions(configuration);
    const plan = await planner.planModel(configuration.path, options);
    return plan.weightBytes + slots * plan.sessionBytes;
  };
}

/** From the size of the file, or of the checkpoint that a folder holds. */
export const fileBytes: MemoryEstimate = async (configuration) => {
  const weights = await weightBytes(configuration.path);
  return weights === undefined ? undefined : weights * SPREAD + SESSIONS_BYTES;
};

/** A folder means its model.gguf, else its only GGUF file, else all of it; several GGUF files mean nothing certain. */
async function weightBytes(place: string): Promise<number | undefined> {
  const found = await stat(place).catch(() => undefined);
  if (!found?.isDirectory()) return found?.size;
  const names = await readdir(place);
  const gguf = names.filter((name) => name.endsWith('.gguf'));
  const chosen = gguf.find((name) => name === 'model.gguf') ?? (gguf.length === 1 ? gguf[0] : '');
  if (chosen) return (await stat(path.join(place, chosen))).size;
  if (gguf.length > 1) return undefined;
  const files = await readdir(place, { recursive: true, withFileTypes: true });
  const sizes = files
    .filter((file) => file.isFile())
    .map(async (file) => (await stat(path.join(file.parentPath, file.name))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

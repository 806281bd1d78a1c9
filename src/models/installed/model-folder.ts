/**
 * The folder of one installed model: MODELS_DIR/ID with model.json beside the weights. The record is written last and says
 * what the weights are, so a model is installed exactly when its record is there and agrees with the file.
 */
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  formatRecord,
  type ModelRecord,
  parseRecord,
  WEIGHTS_FILES,
  weightsFileOf,
} from './model-record.ts';

const RECORD = 'model.json';

/** Reads what lies in the folder, whoever put it there. It is undefined unless record and weights agree. */
export async function readModelFolder(
  folder: string,
): Promise<{ readonly record: ModelRecord; readonly path: string } | undefined> {
  const record = await readFile(path.join(folder, RECORD), 'utf8').then(parseRecord, ifAbsent);
  if (record === undefined) return undefined;
  const file = path.join(folder, weightsFileOf(record));
  const bytes = await stat(file).then(({ size }) => size, ifAbsent);
  return bytes === record.weights.bytes ? { record, path: file } : undefined;
}

/** Names of the folders that may hold models. */
export async function modelFolders(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(ifAbsent);
  const folders = (entries ?? []).filter((entry) => entry.isDirectory() || entry.isSymbolicLink());
  return folders.map(({ name }) => name).filter((name) => !name.startsWith('.'));
}

/**
 * Moves weights and record into the folder. While the old weights are replaced there is no record, so at no time does a
 * record stand beside weights that are not its own.
 * @returns where the weights are now
 */
export async function installModel(
  folder: string,
  weights: string,
  record: ModelRecord,
): Promise<string> {
  const newRecord = `${weights}.json`;
  await writeFile(newRecord, formatRecord(record), { flush: true });
  const file = path.join(folder, weightsFileOf(record));
  await mkdir(folder, { recursive: true });
  await rm(path.join(folder, RECORD), { force: true });
  await rename(weights, file);
  for (const other of WEIGHTS_FILES) {
    if (other !== path.basename(file)) await rm(path.join(folder, other), { force: true });
  }
  await rename(newRecord, path.join(folder, RECORD));
  return file;
}

/** Removes the record first: from then on nothing is installed. A folder with nothing else in it is removed, too. */
export async function uninstallModel(folder: string): Promise<void> {
  for (const file of [RECORD, ...WEIGHTS_FILES]) await rm(path.join(folder, file), { force: true });
  if ((await readdir(folder)).length === 0) await rm(folder, { recursive: true });
}

function ifAbsent(thrown: unknown): undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) throw thrown;
  if (thrown.code !== 'ENOENT' && thrown.code !== 'ENOTDIR') throw thrown;
}

/**
 * One installed model: MODELS_DIR/ID with model.json beside the weights. The record is written last and says what the
 * weights are, so a model is installed exactly when its record is there and agrees with the file.
 */
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { findEntry } from '../catalogue/catalogue.ts';
import type { CatalogueEntry, ModelDescription } from '../catalogue/catalogue-entry.ts';
import { sourceIntegrity, sourceName } from '../download/source.ts';
import { QUANTIZER_VERSION } from '../files/quantize-whisper.ts';
import { formatRecord, type ModelRecord, parseRecord, weightsFileOf } from '../model-record.ts';

export interface InstalledModel {
  readonly entry: ModelDescription;
  /** Absolute path of the weights. */
  readonly path: string;
  readonly record: ModelRecord;
}

const RECORD = 'model.json';
const WEIGHTS = ['model.gguf', 'model.bin'] as const;

/** What lies in the folder, whoever put it there; undefined unless record and weights agree. */
export async function readModelFolder(
  folder: string,
): Promise<{ readonly record: ModelRecord; readonly path: string } | undefined> {
  const record = await readFile(path.join(folder, RECORD), 'utf8').then(parseRecord, ifAbsent);
  if (record === undefined) return undefined;
  const file = path.join(folder, weightsFileOf(record));
  const bytes = await stat(file).then(({ size }) => size, ifAbsent);
  return bytes === record.weights.bytes ? { record, path: file } : undefined;
}

/** Moves weights and record into the folder. Without the old record the old weights are no model; with the new one the new weights are. */
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
  for (const other of WEIGHTS) {
    if (other !== path.basename(file)) await rm(path.join(folder, other), { force: true });
  }
  await rename(newRecord, path.join(folder, RECORD));
  return file;
}

/** The record first: from then on nothing is installed. The folder goes, too, when nothing else is in it. */
export async function uninstallModel(folder: string): Promise<void> {
  for (const file of [RECORD, ...WEIGHTS]) await rm(path.join(folder, file), { force: true });
  if ((await readdir(folder)).length === 0) await rm(folder, { recursive: true });
}

/** Names of the folders that may hold models. */
export async function modelFolders(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(ifAbsent);
  const folders = (entries ?? []).filter((entry) => entry.isDirectory() || entry.isSymbolicLink());
  return folders.map(({ name }) => name).filter((name) => !name.startsWith('.'));
}

/** Whether one of the entry's ways, as this version knows them, would give this model. */
export function isCurrent(
  record: ModelRecord,
  entry: CatalogueEntry,
  catalogue: readonly CatalogueEntry[],
): boolean {
  if (record.family !== entry.family || record.imported !== undefined) return false;
  return entry.origins.some((origin) => {
    if (origin.kind === 'files') {
      return (
        record.quantized === undefined &&
        record.converterVersion === origin.converter.version &&
        pinsOf(record) === pins(origin.sources)
      );
    }
    const { quantized } = record;
    const isSame = quantized?.type === origin.type && quantized.base === origin.base;
    if (!isSame || record.converterVersion !== QUANTIZER_VERSION) return false;
    const base = findEntry(origin.base, catalogue);
    return base?.origins.some(
      (way) =>
        way.kind === 'files' &&
        quantized.baseVersion === way.converter.version &&
        pinsOf(record) === pins(way.sources),
    );
  });
}

function pins(sources: Extract<CatalogueEntry['origins'][number], { kind: 'files' }>['sources']) {
  return sources.map((source) => `${sourceName(source)} ${sourceIntegrity(source)}`).join();
}

function pinsOf(record: ModelRecord): string {
  return record.sources.map((source) => `${source.package} ${source.integrity}`).join();
}

/** What a record of an imported model says about it. */
export function describeImport(record: ModelRecord): ModelDescription | undefined {
  const { id, family, license, imported } = record;
  if (imported === undefined) return undefined;
  const { task, languages, description } = imported;
  return { id, family, task, languages, license, description };
}

export function ifAbsent(thrown: unknown): undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) throw thrown;
  if (thrown.code !== 'ENOENT' && thrown.code !== 'ENOTDIR') throw thrown;
}

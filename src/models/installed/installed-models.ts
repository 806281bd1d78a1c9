/**
 * Finds installed models: which there are, whether they are what this version would make, and where their weights lie.
 * Workers need no more than this, so nothing here reaches a downloader or a converter.
 */
import path from 'node:path';
import { ModelId } from '../../core/job/job.ts';
import { CATALOGUE, catalogueEntry, findEntry } from '../catalogue/catalogue.ts';
import type { CatalogueEntry, ModelDescription, Origin } from '../catalogue/catalogue-entry.ts';
import { QUANTIZER_VERSION } from '../catalogue/quantization.ts';
import { sourceIntegrity, sourceName } from '../catalogue/source.ts';
import { modelFolders, readModelFolder } from './model-folder.ts';
import type { ModelRecord } from './model-record.ts';

export interface InstalledModel {
  readonly entry: ModelDescription;
  /** Absolute path of the weights. */
  readonly path: string;
  readonly record: ModelRecord;
}

export interface ListedModel {
  /** From the catalogue, or as an imported model describes itself. */
  readonly entry: ModelDescription;
  /** `outdated`: made by another version of this program; the next pull replaces it. */
  readonly state: 'installed' | 'outdated' | 'missing';
  /** Absent unless installed. */
  readonly installed?: InstalledModel;
}

export class InstalledModels {
  readonly #directory: string;
  readonly #catalogue: readonly CatalogueEntry[];

  /** @param directory `--models-dir`; it need not be there */
  constructor(directory: string, catalogue: readonly CatalogueEntry[] = CATALOGUE) {
    this.#directory = path.resolve(directory);
    this.#catalogue = catalogue;
  }

  /** Every model of the catalogue and every other in this folder, and how it stands. */
  async list(): Promise<readonly ListedModel[]> {
    const known = new Set(this.#catalogue.map(({ id }) => id));
    const others = (await modelFolders(this.#directory)).filter((id) => !known.has(id));
    const found = await Promise.all(others.toSorted().map((id) => this.find(id)));
    return [
      ...(await Promise.all(this.#catalogue.map((entry) => this.inspect(entry)))),
      ...found.filter((listed) => listed !== undefined && listed.state !== 'missing'),
    ].filter((listed) => listed !== undefined);
  }

  /**
   * One model, installed or not.
   * @throws {WavepoolError} MODEL_UNKNOWN
   */
  async show(id: string): Promise<ListedModel> {
    const found = await this.find(id);
    return found ?? { entry: catalogueEntry(id, this.#catalogue), state: 'missing' };
  }

  /**
   * The installed model, or undefined when it must be pulled first.
   * @throws {WavepoolError} MODEL_UNKNOWN
   */
  async locate(id: string): Promise<InstalledModel | undefined> {
    return (await this.show(id)).installed;
  }

  /** As `show`, but undefined for a model that is neither in the catalogue nor in this folder. */
  async find(id: string): Promise<ListedModel | undefined> {
    const entry = findEntry(id, this.#catalogue);
    if (entry !== undefined) return this.inspect(entry);
    if (!ModelId.safeParse(id).success) return undefined;
    const found = await readModelFolder(path.join(this.#directory, id));
    const description = found && describeImport(found.record);
    if (found === undefined || description === undefined || found.record.id !== id)
      return undefined;
    return { entry: description, state: 'installed', installed: { entry: description, ...found } };
  }

  /** Tells how the folder of a catalogue entry stands. */
  async inspect(entry: CatalogueEntry): Promise<ListedModel> {
    const found = await readModelFolder(path.join(this.#directory, entry.id));
    if (found === undefined) return { entry, state: 'missing' };
    if (!isCurrent(found.record, entry, this.#catalogue)) return { entry, state: 'outdated' };
    return { entry, state: 'installed', installed: { entry, ...found } };
  }
}

/** Whether one of the entry's ways, as this version knows them, would give this model. */
function isCurrent(
  record: ModelRecord,
  entry: CatalogueEntry,
  catalogue: readonly CatalogueEntry[],
): boolean {
  if (record.family !== entry.family || record.imported !== undefined) return false;
  const { quantized, converterVersion } = record;
  return entry.origins.some((origin) => {
    if (origin.kind === 'files') {
      return quantized === undefined && isMadeBy(record, converterVersion, origin);
    }
    const isSame = quantized?.type === origin.type && quantized.base === origin.base;
    if (!isSame || converterVersion !== QUANTIZER_VERSION) return false;
    const base = findEntry(origin.base, catalogue);
    return base?.origins.some(
      (way) => way.kind === 'files' && isMadeBy(record, quantized.baseVersion, way),
    );
  });
}

function isMadeBy(
  record: ModelRecord,
  version: number,
  { sources, converter }: Extract<Origin, { kind: 'files' }>,
): boolean {
  const pinned = sources.map((source) => `${sourceName(source)} ${sourceIntegrity(source)}`);
  const recorded = record.sources.map((source) => `${source.package} ${source.integrity}`);
  return version === converter.version && recorded.join() === pinned.join();
}

/** What the record of an imported model says about it; undefined for a model of the catalogue. */
export function describeImport(record: ModelRecord): ModelDescription | undefined {
  const { id, family, license, imported } = record;
  if (imported === undefined) return undefined;
  const { task, languages, description } = imported;
  return { id, family, task, languages, license, description };
}

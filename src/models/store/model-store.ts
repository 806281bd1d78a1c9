/**
 * The models folder with everything that changes it: pulling, importing, quantizing and removing models. The code that
 * makes models is large and most processes only look, so it is loaded when something is made.
 */
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import { ModelId } from '../../core/job/job.ts';
import { CATALOGUE, catalogueEntry, downloadBytes, findEntry } from '../catalogue/catalogue.ts';
import type { CatalogueEntry, ModelDescription } from '../catalogue/catalogue-entry.ts';
import { canBeQuantized, type Quantization, quantizedId } from '../catalogue/quantization.ts';
import type { Download, Environment } from '../download/download.ts';
import {
  describeImport,
  type InstalledModel,
  InstalledModels,
  type ListedModel,
} from '../installed/installed-models.ts';
import { installModel, readModelFolder, uninstallModel } from '../installed/model-folder.ts';
import type { ModelRecord } from '../installed/model-record.ts';
import type { MadeModel, MakeReport, ModelMaker } from './model-maker.ts';
import { withPullLock } from './pull-lock.ts';

export interface ModelStoreOptions {
  /** `--models-dir`; created when something is pulled. */
  readonly directory: string;
  /** Where the settings of npm, pip, proxies and Hugging Face come from: the process's environment. */
  readonly environment: Environment;
  /** @defaultValue `CATALOGUE` */
  readonly catalogue?: readonly CatalogueEntry[];
  /** @defaultValue every kind of source with the settings of `environment` and the working directory */
  readonly download?: Download;
  /** Has native code look at weights that were imported, before they are installed. Rejects what it refuses. */
  readonly inspect?: (file: string) => Promise<void>;
  /** @defaultValue the system's clock */
  readonly now?: () => Date;
}

/** How far a pull has come. */
export interface PullProgress {
  readonly id: string;
  /** `waiting`: another process is pulling the same model. `passed-over`: another way is tried, for `reason`. */
  readonly phase: 'waiting' | 'downloading' | 'passed-over' | 'converting' | 'installed';
  readonly receivedBytes: number;
  readonly totalBytes: number;
  readonly reason?: string;
}

export interface PullOptions {
  readonly onProgress?: (progress: PullProgress) => void;
  readonly signal?: AbortSignal;
}

export interface ImportOptions extends PullOptions {
  /** @defaultValue made from the name of the file */
  readonly id?: string | undefined;
  readonly quantize?: Quantization | undefined;
}

/** Any number of stores, in any number of processes, may work on one folder. */
export class ModelStore {
  readonly #options: ModelStoreOptions;
  readonly #directory: string;
  readonly #catalogue: readonly CatalogueEntry[];
  readonly #installed: InstalledModels;

  constructor(options: ModelStoreOptions) {
    this.#options = options;
    this.#directory = path.resolve(options.directory);
    this.#catalogue = options.catalogue ?? CATALOGUE;
    this.#installed = new InstalledModels(this.#directory, this.#catalogue);
  }

  /** Every model of the catalogue and every other in this folder, and how it stands. */
  list(): Promise<readonly ListedModel[]> {
    return this.#installed.list();
  }

  /**
   * One model, installed or not.
   * @throws {WavepoolError} MODEL_UNKNOWN
   */
  show(id: string): Promise<ListedModel> {
    return this.#installed.show(id);
  }

  /**
   * The installed model, or undefined when it must be pulled first.
   * @throws {WavepoolError} MODEL_UNKNOWN
   */
  locate(id: string): Promise<InstalledModel | undefined> {
    return this.#installed.locate(id);
  }

  /**
   * Downloads, verifies, converts and installs a model, unless it is there. Nothing half done is ever visible.
   * @throws {WavepoolError} MODEL_UNKNOWN, MODEL_DOWNLOAD_FAILED (also when the folder cannot be written),
   *   MODEL_FILE_INVALID, CANCELLED
   */
  async pull(id: string, options: PullOptions = {}): Promise<InstalledModel> {
    const present = (await this.#installed.find(id))?.installed;
    if (present !== undefined) return reportInstalled(present, options);
    return this.#pullEntry(catalogueEntry(id, this.#catalogue), options);
  }

  /**
   * The model in blocks of few bits, made here, under an id of its own such as `whisper-tiny.en-q8_0`.
   * @throws {WavepoolError} OPTION_UNSUPPORTED for a family without it, and what `pull` throws
   */
  async pullQuantized(
    base: string,
    type: Quantization,
    options: PullOptions = {},
  ): Promise<InstalledModel> {
    const { entry } = await this.show(base);
    assertQuantizable(entry);
    const id = quantizedId(base, type);
    assertId(id);
    const present = (await this.#installed.find(id))?.installed;
    if (present !== undefined) return reportInstalled(present, options);
    const known = findEntry(id, this.#catalogue);
    if (known !== undefined) {
      return this.#pullEntry({ ...known, origins: [{ kind: 'quantize', base, type }] }, options);
    }
    const from = await this.locate(base);
    if (from === undefined) throw new WavepoolError('MODEL_UNKNOWN', base);
    return this.#underLock(id, options, async (folder) => {
      reporterOf(id, options).converting();
      const { quantizeModel } = await import('./model-maker.ts');
      const model = { ...from.record, path: from.path };
      const made = await quantizeModel(model, type, { folder, signal: options.signal });
      return this.#install({ ...entry, id }, made, from.record.imported);
    });
  }

  /**
   * Checks weights that lie elsewhere and installs them, under their own id or, when they are those of a model of the
   * catalogue, under that one's.
   * @param location a file, a folder, or an address
   * @throws {WavepoolError} MODEL_FILE_INVALID, INPUT_NOT_FOUND; INVALID_REQUEST for an id that is taken; OPTION_UNSUPPORTED,
   *   MODEL_DOWNLOAD_FAILED, CANCELLED
   */
  async import(location: string, options: ImportOptions = {}): Promise<InstalledModel> {
    const { ImportSession } = await import('./import-model.ts');
    const session = new ImportSession(location, this.#catalogue, this.#options.environment);
    const base = options.id ?? session.suggestedId;
    assertId(base);
    const id = options.quantize === undefined ? base : quantizedId(base, options.quantize);
    assertId(id);
    return this.#underLock(id, options, async (folder) => {
      const report = reporterOf(id, options);
      const partial = this.#partialFolder(id);
      const read = await session.read(base, { folder, partial, report, signal: options.signal });
      const { description, imported } = read;
      let made = read.made;
      if (options.quantize !== undefined) {
        assertQuantizable(description);
        const { quantizeModel } = await import('./model-maker.ts');
        const from = { ...made, id: base };
        made = await quantizeModel(from, options.quantize, { folder, signal: options.signal });
      }
      const taken = (await readModelFolder(path.join(this.#directory, id)))?.record;
      if (taken !== undefined && taken.weights.sha256 !== made.weights.sha256) {
        const detail = `${id} is another model, which is installed; choose an --id, or remove it first`;
        throw new WavepoolError('INVALID_REQUEST', detail);
      }
      if (made.file === undefined) await this.#options.inspect?.(made.path);
      options.signal?.throwIfAborted();
      return this.#install({ ...description, id }, made, imported);
    }).then((model) => reportInstalled(model, options));
  }

  /**
   * Deletes an installed model. What was validated stays for the day these very weights come back.
   * @throws {WavepoolError} MODEL_UNKNOWN when it is not there
   */
  async remove(id: string, options: PullOptions = {}): Promise<ModelRecord> {
    const folder = path.join(this.#directory, id);
    const isThere = ModelId.safeParse(id).success && (await readModelFolder(folder)) !== undefined;
    if (!isThere) throw new WavepoolError('MODEL_UNKNOWN', `${id} is not in ${this.#directory}`);
    return this.#underLock(id, options, async () => {
      const found = await readModelFolder(folder);
      if (found === undefined) throw new WavepoolError('MODEL_UNKNOWN', `${id} is gone already`);
      await uninstallModel(folder);
      return found.record;
    });
  }

  async #pullEntry(entry: CatalogueEntry, options: PullOptions): Promise<InstalledModel> {
    const model = await this.#underLock(entry.id, options, async (folder) => {
      const present = (await this.#installed.inspect(entry)).installed;
      if (present !== undefined) return present;
      const partial = this.#partialFolder(entry.id);
      const report = reporterOf(entry.id, options);
      const maker = await this.#openMaker();
      const made = await maker.make(entry, { folder, partial, report, signal: options.signal });
      options.signal?.throwIfAborted();
      const installed = await this.#install(entry, made);
      await rm(partial, { recursive: true, force: true });
      return installed;
    });
    return reportInstalled(model, options, entry);
  }

  async #openMaker(): Promise<ModelMaker> {
    const [{ ModelMaker }, { sourceDownload }] = await Promise.all([
      import('./model-maker.ts'),
      import('../download/source-download.ts'),
    ]);
    const { download, environment } = this.#options;
    return new ModelMaker({
      catalogue: this.#catalogue,
      download: download ?? sourceDownload(environment, process.cwd()),
      installed: this.#installed,
    });
  }

  async #underLock<Result>(
    id: string,
    options: PullOptions,
    work: (folder: string) => Promise<Result>,
  ): Promise<Result> {
    const { signal } = options;
    try {
      await mkdir(this.#directory, { recursive: true });
      const lock = path.join(this.#directory, `.pull-${id}`);
      const onWait = () => reporterOf(id, options).waiting();
      return await withPullLock(lock, { signal, onWait }, work);
    } catch (thrown) {
      throw pullError(id, this.#directory, thrown, signal);
    }
  }

  async #install(
    entry: ModelDescription,
    made: MadeModel,
    imported?: ModelRecord['imported'],
  ): Promise<InstalledModel> {
    const { path: weights, converterVersion, ...rest } = made;
    const { id, family, license } = entry;
    const now = this.#options.now?.() ?? new Date();
    const installedAt = now.toISOString();
    const record: ModelRecord = {
      id,
      family,
      converterVersion,
      license,
      installedAt,
      ...rest,
      ...(imported === undefined ? {} : { imported }),
    };
    const file = await installModel(path.join(this.#directory, id), weights, record);
    return { entry: describeImport(record) ?? entry, path: file, record };
  }

  /** Keeps what has come of a download that broke off, for the next try. */
  #partialFolder(id: string): string {
    return path.join(this.#directory, '.downloads', id);
  }
}

function reporterOf(
  id: string,
  { onProgress }: PullOptions,
): MakeReport & { readonly waiting: () => void } {
  let receivedBytes = 0;
  let totalBytes = 0;
  const tell = (phase: PullProgress['phase'], reason?: string) =>
    onProgress?.({
      id,
      phase,
      receivedBytes,
      totalBytes,
      ...(reason === undefined ? {} : { reason }),
    });
  return {
    waiting: () => tell('waiting'),
    downloading: (received, total) => {
      [receivedBytes, totalBytes] = [received, total];
      tell('downloading');
    },
    passedOver: (reason) => tell('passed-over', reason),
    converting: () => {
      receivedBytes = totalBytes;
      tell('converting');
    },
  };
}

function reportInstalled(
  model: InstalledModel,
  { onProgress }: PullOptions,
  entry?: CatalogueEntry,
): InstalledModel {
  const totalBytes = entry === undefined ? model.record.weights.bytes : downloadBytes(entry);
  const id = model.record.id;
  onProgress?.({ id, phase: 'installed', receivedBytes: totalBytes, totalBytes });
  return model;
}

/** @throws {WavepoolError} OPTION_UNSUPPORTED */
function assertQuantizable(model: ModelDescription): void {
  if (canBeQuantized(model)) return;
  const detail =
    model.family === 'whisper'
      ? `${model.id} is quantized already; quantize the full weights instead`
      : `${model.id} cannot be quantized: its kernels take the weights as they were published, and only Whisper's matrices have other forms`;
  throw new WavepoolError('OPTION_UNSUPPORTED', detail);
}

/** @throws {WavepoolError} INVALID_REQUEST */
function assertId(id: string): void {
  if (ModelId.safeParse(id).success) return;
  const rule = 'a model id is a-z, 0-9, ".", "_", "-", at most 64';
  throw new WavepoolError('INVALID_REQUEST', `${JSON.stringify(id)} cannot be an id: ${rule}`);
}

function pullError(
  id: string,
  directory: string,
  thrown: unknown,
  signal: AbortSignal | undefined,
): unknown {
  if (thrown instanceof WavepoolError) return thrown;
  if (signal?.aborted) return new WavepoolError('CANCELLED', `pull of ${id}`, { cause: thrown });
  if (!(thrown instanceof Error) || !('syscall' in thrown)) return thrown;
  const detail = `${id} cannot be written to ${directory}: ${thrown.message}`;
  return new WavepoolError('MODEL_DOWNLOAD_FAILED', detail, { cause: thrown });
}

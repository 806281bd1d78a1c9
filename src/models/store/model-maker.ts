/** Makes the weights of a catalogue entry in a folder of its own, by the first of its ways that works. */
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import { findEntry } from '../catalogue/catalogue.ts';
import type { CatalogueEntry, Origin } from '../catalogue/catalogue-entry.ts';
import { QUANTIZER_VERSION, type Quantization } from '../catalogue/quantization.ts';
import { type Source, sourceBytes, sourceLabel, sourceName } from '../catalogue/source.ts';
import { convert } from '../convert/convert.ts';
import type { ConversionInput } from '../convert/converter.ts';
import { quantizeWhisper } from '../convert/quantize-whisper.ts';
import { type Download, fileOfSource } from '../download/download.ts';
import type { InstalledModels } from '../installed/installed-models.ts';
import { type ModelRecord, type RecordedSource, recordSource } from '../installed/model-record.ts';

/** What goes into the record of the model, and where the weights are. */
export type MadeModel = Pick<
  ModelRecord,
  'converterVersion' | 'weights' | 'file' | 'sources' | 'quantized'
> & {
  /** Inside of the folder that was given for making it. */
  readonly path: string;
};

export interface MakeReport {
  downloading(receivedBytes: number, totalBytes: number): void;
  passedOver(reason: string): void;
  converting(): void;
}

export interface MakeOptions {
  /** Empty, and the maker's own. */
  readonly folder: string;
  /** Survives a pull that does not end. */
  readonly partial: string;
  readonly report: MakeReport;
  readonly signal: AbortSignal | undefined;
}

export interface ModelMakerOptions {
  readonly catalogue: readonly CatalogueEntry[];
  readonly download: Download;
  /** The models that others may be made from. */
  readonly installed: InstalledModels;
}

export class ModelMaker {
  readonly #options: ModelMakerOptions;

  constructor(options: ModelMakerOptions) {
    this.#options = options;
  }

  /** @throws {WavepoolError} MODEL_DOWNLOAD_FAILED when every way failed, with each reason; MODEL_FILE_INVALID, CANCELLED */
  async make(entry: CatalogueEntry, options: MakeOptions): Promise<MadeModel> {
    const failures: WavepoolError[] = [];
    for (const [index, origin] of entry.origins.entries()) {
      const folder = path.join(options.folder, `way-${index}`);
      await mkdir(folder);
      try {
        return await this.#follow(entry, origin, { ...options, folder });
      } catch (thrown) {
        const isLost = thrown instanceof WavepoolError && thrown.code === 'MODEL_DOWNLOAD_FAILED';
        if (!isLost) throw thrown;
        failures.push(thrown);
        if (index < entry.origins.length - 1) options.report.passedOver(thrown.detail);
      }
    }
    const [first, ...more] = failures;
    if (first === undefined) throw new RangeError(`${entry.id} comes from nowhere`);
    if (more.length === 0) throw first;
    const details = failures.map(({ detail }, index) => `(${index + 1}) ${detail}`).join(' ');
    throw new WavepoolError('MODEL_DOWNLOAD_FAILED', `${entry.id}: ${details}`, { cause: first });
  }

  #follow(entry: CatalogueEntry, origin: Origin, options: MakeOptions): Promise<MadeModel> {
    if (origin.kind === 'quantize') return this.#quantize(origin, options);
    return this.#download(entry, origin, options);
  }

  async #download(
    entry: CatalogueEntry,
    origin: Extract<Origin, { kind: 'files' }>,
    options: MakeOptions,
  ): Promise<MadeModel> {
    await this.#downloadAll(origin.sources, options);
    options.report.converting();
    const made = await convertSources(entry, origin, options.folder);
    options.signal?.throwIfAborted();
    return made;
  }

  async #downloadAll(sources: readonly Source[], options: MakeOptions): Promise<void> {
    const { folder, partial, report, signal } = options;
    const total = sources.reduce((sum, source) => sum + sourceBytes(source), 0);
    let finished = 0;
    report.downloading(0, total);
    for (const source of sources) {
      await this.#options.download(source, sourceFolder(folder, source), {
        onBytes: (received) => report.downloading(finished + received, total),
        partial,
        signal,
      });
      finished += sourceBytes(source);
    }
  }

  /** Quantizes the installed base. Without one, a base is made for this and not kept. */
  async #quantize(
    { base, type }: Extract<Origin, { kind: 'quantize' }>,
    options: MakeOptions,
  ): Promise<MadeModel> {
    const installed = (await this.#options.installed.find(base))?.installed;
    if (installed !== undefined) {
      options.report.converting();
      const { record, path: weights } = installed;
      return quantizeModel({ ...record, path: weights, id: base }, type, options);
    }
    const entry = findEntry(base, this.#options.catalogue);
    if (entry === undefined) throw new WavepoolError('MODEL_UNKNOWN', base);
    const made = await this.make(entry, options);
    return quantizeModel({ ...made, id: base }, type, options);
  }
}

/** Makes the quantized form of a model in the folder. */
export async function quantizeModel(
  base: MadeModel & { readonly id: string },
  type: Quantization,
  { folder, signal }: Pick<MakeOptions, 'folder' | 'signal'>,
): Promise<MadeModel> {
  const target = path.join(folder, `${type}.bin`);
  const weights = await quantizeWhisper(base.path, target, type, signal);
  const quantized = {
    type,
    base: base.id,
    baseSha256: base.weights.sha256,
    baseVersion: base.converterVersion,
  };
  const { sources } = base;
  return {
    path: target,
    weights,
    file: 'model.bin',
    converterVersion: QUANTIZER_VERSION,
    sources,
    quantized,
  };
}

/** Converts the files in the folders of the sources, which lie below `folder`. */
async function convertSources(
  entry: CatalogueEntry,
  { sources, converter }: Extract<Origin, { kind: 'files' }>,
  folder: string,
): Promise<MadeModel> {
  const locate = (name: string) => {
    for (const source of sources) {
      const file = source.files.find((candidate) => candidate.name === name);
      if (file !== undefined) return fileOfSource(sourceFolder(folder, source), source, file);
    }
    throw new RangeError(`the catalogue lists no file ${name} for ${entry.id}`);
  };
  const input: ConversionInput = {
    id: entry.id,
    license: entry.license,
    source: sources.map(sourceName).join(', '),
    locate,
    read: (name) => readFile(locate(name)),
  };
  const converted = await convert(converter, input, folder);
  return { ...converted, sources: await recordSources(sources, folder) };
}

function recordSources(sources: readonly Source[], folder: string): Promise<RecordedSource[]> {
  return Promise.all(
    sources.map(async (source) => {
      const file = source.files.find(({ name }) => name === source.licenseFile);
      const place = file && fileOfSource(sourceFolder(folder, source), source, file);
      return recordSource(source, place && (await readFile(place, 'utf8')));
    }),
  );
}

/** Where the files of a source are put, below the folder of a pull. */
function sourceFolder(folder: string, source: Source): string {
  return path.join(folder, 'sources', sourceLabel(source).replaceAll(/[^\w.@=-]+/g, '-'));
}

/** Makes the weights of a catalogue entry in a folder of its own, by the first of its ways that works. */
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import { findEntry } from '../catalogue/catalogue.ts';
import type { CatalogueEntry, Origin } from '../catalogue/catalogue-entry.ts';
import type { ConversionInput, Converter } from '../convert/converter.ts';
import type { Download } from '../download/download.ts';
import {
  type Source,
  sourceBytes,
  sourceIntegrity,
  sourceLabel,
  sourceName,
} from '../download/source.ts';
import { fileOfSource } from '../download/verify-files.ts';
import type { WrittenFile } from '../files/file-writer.ts';
import { writeGguf } from '../files/gguf-writer.ts';
import type { Quantization } from '../files/quantize.ts';
import { QUANTIZER_VERSION, quantizeWhisper } from '../files/quantize-whisper.ts';
import type { ModelRecord, RecordedSource, WeightsFile } from '../model-record.ts';
import type { InstalledModel } from './model-folder.ts';

/** What goes into the record of the model. */
export type MadeModel = Pick<
  ModelRecord,
  'converterVersion' | 'weights' | 'file' | 'sources' | 'quantized'
> & {
  /** In the folder of the pull. */
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
  /** An installed model that others may be made from. */
  readonly locate: (id: string) => Promise<InstalledModel | undefined>;
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
    return this.#convert(entry, origin, options);
  }

  async #convert(
    entry: CatalogueEntry,
    { sources, converter }: Extract<Origin, { kind: 'files' }>,
    options: MakeOptions,
  ): Promise<MadeModel> {
    await this.#downloadAll(sources, options);
    options.report.converting();
    const made = await convertSources(entry, sources, converter, options.folder);
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

  /** From the installed base, else from one that is made for this and not kept. */
  async #quantize(
    { base, type }: Extract<Origin, { kind: 'quantize' }>,
    options: MakeOptions,
  ): Promise<MadeModel> {
    const installed = await this.#options.locate(base);
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

/** The quantized form of a model that lies at `path`. */
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

/** Converts what lies in the folders of the sources below `folder`. */
export async function convertSources(
  entry: Pick<CatalogueEntry, 'id' | 'license'>,
  sources: readonly Source[],
  converter: Converter,
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
  const made = await runConverter(converter, input, folder);
  return { ...made, sources: await recordSources(sources, folder) };
}

export interface ConvertedFile {
  readonly path: string;
  readonly weights: WrittenFile;
  readonly converterVersion: number;
  readonly file?: WeightsFile;
}

export async function runConverter(
  converter: Converter,
  input: ConversionInput,
  folder: string,
): Promise<ConvertedFile> {
  const converterVersion = converter.version;
  if ('write' in converter) {
    const target = path.join(folder, 'converted.bin');
    const weights = await converter.write(input, target);
    const isDefault = converter.file === 'model.gguf';
    return {
      path: target,
      weights,
      converterVersion,
      ...(isDefault ? {} : { file: converter.file }),
    };
  }
  const target = path.join(folder, 'converted.gguf');
  const weights = await writeGguf(target, await converter.convert(input));
  return { path: target, weights, converterVersion };
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

/** @param licenseText of the source's license file */
export function recordSource(source: Source, licenseText?: string): RecordedSource {
  return {
    package: sourceName(source),
    integrity: sourceIntegrity(source),
    license: source.license,
    licenseText: licenseText ?? source.copyright ?? '',
  };
}

/** Where the files of a source are put, below the folder of a pull. */
export function sourceFolder(folder: string, source: Source): string {
  return path.join(folder, 'sources', sourceLabel(source).replaceAll(/[^\w.@=-]+/g, '-'));
}

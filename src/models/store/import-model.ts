/** Imports weights that somebody already has. Their content tells what they are, and nothing is installed unless it is whole. */
import { copyFile, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import { sha256Of, sha256OfFile } from '../../core/files/file-hash.ts';
import { findEntry } from '../catalogue/catalogue.ts';
import type { CatalogueEntry, ModelDescription } from '../catalogue/catalogue-entry.ts';
import type { Source } from '../catalogue/source.ts';
import { convert } from '../convert/convert.ts';
import type { ConversionInput } from '../convert/converter.ts';
import type { Environment } from '../download/download.ts';
import { HttpsClient, withoutSecrets } from '../download/https-client.ts';
import { huggingFaceHeaders } from '../download/url-download.ts';
import { FileBytes, invalidFile } from '../files/byte-source.ts';
import { type RecordedImport, recordSource } from '../installed/model-record.ts';
import { type FoundFormat, findFormat } from './import-format.ts';
import type { MadeModel, MakeOptions } from './model-maker.ts';

export interface ReadImport {
  readonly description: ModelDescription;
  readonly made: MadeModel;
  /** Absent when these are the weights of a model of the catalogue. */
  readonly imported?: RecordedImport;
}

/** A folder with more files is not searched for weights. */
const MOST_FILES = 1_000;
/** A file with such a name says nothing about the model; the name of its folder does. */
const PLAIN_NAMES = new Set(['model', 'ggml-model', 'pytorch_model', 'weights']);

export class ImportSession {
  readonly #location: string;
  readonly #address: URL | undefined;
  readonly #catalogue: readonly CatalogueEntry[];
  readonly #environment: Environment;

  /** @throws {WavepoolError} INVALID_REQUEST for an address of another kind than http or https */
  constructor(location: string, catalogue: readonly CatalogueEntry[], environment: Environment) {
    this.#address = addressOf(location);
    this.#location = this.#address === undefined ? path.resolve(location) : location;
    this.#catalogue = catalogue;
    this.#environment = environment;
  }

  /** An id made from the name of the file: `ggml-tiny.en.bin` becomes `whisper-tiny.en`. */
  get suggestedId(): string {
    const place = this.#address === undefined ? this.#location : this.#address.pathname;
    const name = path.basename(place).replace(/\.(bin|gguf|onnx|safetensors)$/i, '');
    const telling = PLAIN_NAMES.has(name) ? path.basename(path.dirname(place)) : name;
    const plain = telling.toLowerCase().replace(/^ggml-/, 'whisper-');
    return plain
      .replaceAll(/[^a-z0-9._-]+/g, '-')
      .replace(/^[^a-z0-9]+/, '')
      .slice(0, 55);
  }

  /**
   * Brings the files into the folder, finds out what they are and converts them.
   * @param id what the model is to be called
   * @throws {WavepoolError} MODEL_FILE_INVALID, INPUT_NOT_FOUND, INVALID_REQUEST, MODEL_DOWNLOAD_FAILED, CANCELLED
   */
  async read(id: string, place: MakeOptions): Promise<ReadImport> {
    const folder = await this.#bring(place);
    place.report.converting();
    const format = await findFormat(folder);
    const hashes = new Map<string, string>();
    for (const [name, file] of format.files) {
      place.signal?.throwIfAborted();
      hashes.set(name, await sha256OfFile(path.join(folder, file)));
    }
    const entry = findEntry(id, this.#catalogue);
    const sources = entry && sourcesOf(entry, format, hashes);
    if (entry !== undefined && sources === undefined) {
      const detail = `${id} is a model of the catalogue, and ${this.#shown} is not it; choose another name with --id`;
      throw new WavepoolError('INVALID_REQUEST', detail);
    }
    const license = entry?.license ?? 'unknown';
    const input: ConversionInput = {
      id,
      license,
      source: this.#shown,
      locate: (name) => path.join(folder, fileOf(format, name)),
      read: async (name) => readWhole(path.join(folder, fileOf(format, name)), name),
    };
    const converted = await convert(format.converter, input, folder);
    place.signal?.throwIfAborted();
    if (entry !== undefined && sources !== undefined) {
      const recorded = sources.map((source) => recordSource(source));
      return { description: entry, made: { ...converted, sources: recorded } };
    }
    const { family, task, languages, description } = format;
    const sha256 = hashes.size === 1 ? firstOf(hashes) : sha256Of([...hashes.values()].join());
    return {
      description: { id, family, task, languages, license, description },
      made: { ...converted, sources: [] },
      imported: { from: this.#shown, sha256, task, languages, description },
    };
  }

  get #shown(): string {
    return this.#address === undefined ? this.#location : withoutSecrets(this.#address);
  }

  /** A copy, so that nothing changes what was checked. */
  async #bring({ folder, partial, report, signal }: MakeOptions): Promise<string> {
    const target = path.join(folder, 'import');
    await mkdir(target);
    if (this.#address !== undefined) {
      await receiveFile(this.#address, target, this.#environment, { partial, report, signal });
      return target;
    }
    const found = await stat(this.#location).catch((thrown: unknown) => {
      throw new WavepoolError('INPUT_NOT_FOUND', this.#location, { cause: thrown });
    });
    const source = found.isDirectory() ? this.#location : path.dirname(this.#location);
    const names = found.isDirectory() ? await filesOf(source) : [path.basename(this.#location)];
    for (const name of names) {
      signal?.throwIfAborted();
      await copyFile(path.join(source, name), path.join(target, name));
    }
    return target;
  }
}

function addressOf(location: string): URL | undefined {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(location) || !URL.canParse(location)) return undefined;
  const url = new URL(location);
  if (url.protocol === 'https:' || url.protocol === 'http:') return url;
  throw new WavepoolError('INVALID_REQUEST', `${url.protocol} is not an address that is fetched`);
}

/** Larger than any model that runs here. */
const LARGEST_DOWNLOAD = 16 * 2 ** 30;

/**
 * Fetches the file into the folder, under the name that it has in the address.
 * @throws {WavepoolError} MODEL_DOWNLOAD_FAILED, CANCELLED
 */
async function receiveFile(
  address: URL,
  folder: string,
  environment: Environment,
  { partial, report, signal }: Omit<MakeOptions, 'folder'>,
): Promise<void> {
  const url = fileAddress(address);
  await mkdir(partial, { recursive: true });
  const received = path.join(partial, sha256Of(url.href).slice(0, 16));
  const remote = { url, headers: huggingFaceHeaders(url, environment), maxBytes: LARGEST_DOWNLOAD };
  await using client = new HttpsClient({ environment });
  try {
    const { linkedSha256 } = await client.receive(remote, received, {
      onBytes: (bytes) => report.downloading(bytes, bytes),
      signal,
    });
    if (linkedSha256 !== undefined && (await sha256OfFile(received)) !== linkedSha256) {
      await rm(received);
      throw new WavepoolError('MODEL_DOWNLOAD_FAILED', 'it is not what the server announced');
    }
  } catch (thrown) {
    if (signal?.aborted) throw new WavepoolError('CANCELLED', `import of ${withoutSecrets(url)}`);
    if (!(thrown instanceof WavepoolError)) throw thrown;
    const detail = `${withoutSecrets(url)}: ${thrown.detail}; check the address and HTTPS_PROXY, or import a local file`;
    throw new WavepoolError('MODEL_DOWNLOAD_FAILED', detail, { cause: thrown });
  }
  await rename(received, path.join(folder, path.basename(url.pathname) || 'model'));
  await rm(partial, { recursive: true, force: true });
}

/** The page of a file on Hugging Face stands for the file. */
function fileAddress(address: URL): URL {
  const url = new URL(address);
  url.pathname = url.pathname.replace(/^(\/[^/]+\/[^/]+)\/blob\//, '$1/resolve/');
  return url;
}

/** The names of the files directly in the folder that a model may consist of. */
async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  if (entries.length > MOST_FILES) throw invalidFile(folder, `holds ${entries.length} files`);
  return entries
    .filter(
      (entry) => entry.isFile() && /\.(bin|json|txt|js|onnx|gguf|safetensors)$/.test(entry.name),
    )
    .map(({ name }) => name);
}

/** The sources of the first way that would have brought exactly these files; undefined when no way would. */
function sourcesOf(
  entry: CatalogueEntry,
  format: FoundFormat,
  hashes: ReadonlyMap<string, string>,
): readonly Source[] | undefined {
  for (const origin of entry.origins) {
    if (origin.kind !== 'files' || origin.converter.name !== format.converter.name) continue;
    const wanted = origin.sources.flatMap((source) =>
      source.files.filter(({ name }) => name !== source.licenseFile),
    );
    if (wanted.every(({ name, sha256 }) => hashes.get(name) === sha256)) return origin.sources;
  }
  return undefined;
}

function fileOf(format: FoundFormat, name: string): string {
  const file = format.files.get(name);
  if (file === undefined) throw new RangeError(`the format has no file ${name}`);
  return file;
}

/** ONNX files and tokens are read at once. They have a few hundred megabytes at most. */
const LARGEST_WHOLE = 2 ** 30;

async function readWhole(file: string, name: string): Promise<Uint8Array> {
  await using source = await FileBytes.open(file, name);
  if (source.bytes > LARGEST_WHOLE) throw invalidFile(name, `has ${source.bytes} bytes`);
  return await source.read(0, source.bytes);
}

function firstOf(hashes: ReadonlyMap<string, string>): string {
  for (const hash of hashes.values()) return hash;
  return '';
}

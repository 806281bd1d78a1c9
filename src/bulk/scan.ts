/**
 * Walks files and directories and yields their inputs one by one, in a fixed order, with the names of their outputs.
 * Holds the entries of one directory at a time, never the whole tree. A symbolic link counts as what it points to; a
 * directory reached twice (a loop, an overlap of two arguments) is walked once.
 */
import type { Stats } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { ErrorCode } from '../core/errors.ts';
import { WavepoolError } from '../core/errors.ts';
import type { ObjectAddress } from '../core/s3-settings.ts';
import { hasMediaContent, hasMediaExtension } from './media-kind.ts';
import type { NamedInput } from './output-names.ts';
import { folderNames, outputNames } from './output-names.ts';

/** Where a run keeps its own files inside the output directory; never scanned. */
export const STATE_FOLDER = '.wavepool';

/** What macOS writes beside files on foreign volumes: it has the name of a recording and holds none. */
const RESOURCE_FORK_PREFIX = '._';

/** An object of a bucket, in the state in which it was listed. */
export interface ScannedObject extends ObjectAddress {
  /** Changes with the content. */
  readonly etag: string;
}

export interface ScannedInput {
  readonly kind: 'input';
  /** Absolute; of an object its address. */
  readonly path: string;
  /** Where it is, unless it is a file. */
  readonly object?: ScannedObject;
  readonly bytes: number;
  readonly mtimeMs: number;
  /** Folder of the outputs, relative to the output directory; '' is the output directory itself. */
  readonly outputFolder: string;
  /** Name of the outputs without the format's extension. */
  readonly outputName: string;
}

export type ScanEntry =
  | ScannedInput
  | { readonly kind: 'skipped'; readonly path: string }
  | {
      readonly kind: 'problem';
      readonly path: string;
      readonly code: ErrorCode;
      readonly message: string;
    };

/** The PATH arguments of a run, checked. */
export interface ScanRoots {
  /** Absolute paths. */
  readonly files: readonly string[];
  readonly directories: readonly string[];
}

export interface ScanOptions {
  /** The output directory, if there is one; not scanned unless it is itself one of the arguments. */
  readonly out?: string | undefined;
  /** Take every file for an input but hidden ones, whatever its name and content: audio without a header has neither. */
  readonly everyFile?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface Folder {
  readonly path: string;
  readonly outputFolder: string;
  readonly isRoot: boolean;
}

interface Listing {
  readonly files: string[];
  readonly folders: string[];
  readonly other: ScanEntry[];
}

/**
 * Sorts the arguments into files and directories; an argument given twice counts once.
 * @throws {WavepoolError} INPUT_NOT_FOUND, INVALID_REQUEST for something that is neither.
 */
export async function resolveRoots(paths: readonly string[]): Promise<ScanRoots> {
  const files: string[] = [];
  const directories: string[] = [];
  const seen = new Set<string>();
  for (const given of paths) {
    const absolute = path.resolve(given);
    const { real, stats } = await locate(absolute);
    if (seen.has(real)) continue;
    seen.add(real);
    if (stats.isDirectory()) directories.push(absolute);
    else if (stats.isFile()) files.push(absolute);
    else throw new WavepoolError('INVALID_REQUEST', `${given} is neither a file nor a directory`);
  }
  return { files, directories };
}

export async function* scanInputs(
  roots: ScanRoots,
  options: ScanOptions,
): AsyncGenerator<ScanEntry> {
  const walk = new Walk(options, await realPaths(roots.files));
  const alone = roots.files.length === 0 && roots.directories.length === 1;
  const tops = alone ? [''] : folderNames(roots.directories);
  yield* walk.files(roots.files, '', tops);
  for (const [at, directory] of roots.directories.entries()) {
    yield* walk.tree({ path: directory, outputFolder: tops[at] ?? '', isRoot: true });
  }
}

class Walk {
  readonly #options: ScanOptions;
  /** Real paths of files that were given as arguments; a directory that holds them leaves them out. */
  readonly #given: ReadonlySet<string>;
  readonly #visited = new Set<string>();
  #out: string | undefined;

  constructor(options: ScanOptions, given: ReadonlySet<string>) {
    this.#options = options;
    this.#given = given;
  }

  async *tree(root: Folder): AsyncGenerator<ScanEntry> {
    const pending = [root];
    for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
      this.#options.signal?.throwIfAborted();
      const listing = await this.#list(folder);
      if (listing === undefined) continue;
      yield* listing.other;
      yield* this.files(
        listing.files.map((name) => path.join(folder.path, name)),
        folder.outputFolder,
        listing.folders,
      );
      for (const name of listing.folders.toReversed()) {
        pending.push({
          path: path.join(folder.path, name),
          outputFolder: path.join(folder.outputFolder, name),
          isRoot: false,
        });
      }
    }
  }

  /** Files that share one output folder. */
  async *files(
    paths: readonly string[],
    outputFolder: string,
    folders: readonly string[],
  ): AsyncGenerator<ScanEntry> {
    const inputs: (NamedInput & { path: string })[] = [];
    for (const filePath of paths) {
      this.#options.signal?.throwIfAborted();
      const fileName = path.basename(filePath);
      if (await this.#isInput(filePath))
        inputs.push({ fileName, identity: filePath, path: filePath });
      else yield { kind: 'skipped', path: filePath };
    }
    const names = outputNames(inputs, folders);
    for (const [at, input] of inputs.entries()) {
      yield await describe(input.path, outputFolder, names[at] ?? input.fileName);
    }
  }

  /** Undefined when the folder is not to be walked. */
  async #list(folder: Folder): Promise<Listing | undefined> {
    const listing: Listing = { files: [], folders: [], other: [] };
    try {
      const real = await realpath(folder.path);
      if (this.#visited.has(real) || (!folder.isRoot && (await this.#isOut(real))))
        return undefined;
      this.#visited.add(real);
      const entries = await readdir(folder.path, { withFileTypes: true, encoding: 'buffer' });
      for (const entry of entries) {
        const name = entry.name.toString('utf8');
        if (name === STATE_FOLDER) continue;
        const entryPath = path.join(folder.path, name);
        if (!Buffer.from(name).equals(entry.name)) listing.other.push(notUtf8(entryPath));
        else if (entry.isDirectory()) listing.folders.push(name);
        else if (entry.isFile()) this.#addFile(listing, name, path.join(real, name));
        else if (entry.isSymbolicLink()) await this.#addLink(listing, name, entryPath);
        else listing.other.push({ kind: 'skipped', path: entryPath });
      }
    } catch (error) {
      listing.other.push(problem(folder.path, error));
    }
    listing.files.sort();
    listing.folders.sort();
    return listing;
  }

  #addFile(listing: Listing, name: string, real: string): void {
    if (!this.#given.has(real)) listing.files.push(name);
  }

  async #addLink(listing: Listing, name: string, linkPath: string): Promise<void> {
    try {
      const { real, stats } = await locate(linkPath);
      if (stats.isDirectory()) listing.folders.push(name);
      else if (stats.isFile()) this.#addFile(listing, name, real);
      else listing.other.push({ kind: 'skipped', path: linkPath });
    } catch (error) {
      const entry = hasMediaExtension(name) ? problem(linkPath, error) : undefined;
      listing.other.push(entry ?? { kind: 'skipped', path: linkPath });
    }
  }

  async #isOut(real: string): Promise<boolean> {
    const { out } = this.#options;
    if (out === undefined) return false;
    this.#out ??= await realpath(out).catch(() => path.resolve(out));
    return real === this.#out;
  }

  async #isInput(filePath: string): Promise<boolean> {
    const name = path.basename(filePath);
    if (name.startsWith(RESOURCE_FORK_PREFIX)) return false;
    if (this.#options.everyFile === true) return !name.startsWith('.');
    return hasMediaExtension(name) || (await hasMediaContent(filePath));
  }
}

async function describe(
  filePath: string,
  outputFolder: string,
  outputName: string,
): Promise<ScanEntry> {
  try {
    const { size, mtimeMs } = await stat(filePath);
    return { kind: 'input', path: filePath, bytes: size, mtimeMs, outputFolder, outputName };
  } catch (error) {
    return problem(filePath, error);
  }
}

async function realPaths(files: readonly string[]): Promise<Set<string>> {
  return new Set(await Promise.all(files.map((file) => realpath(file).catch(() => file))));
}

/** @throws {WavepoolError} INPUT_NOT_FOUND */
async function locate(filePath: string): Promise<{ real: string; stats: Stats }> {
  try {
    const real = await realpath(filePath);
    return { real, stats: await stat(real) };
  } catch (error) {
    throw new WavepoolError('INPUT_NOT_FOUND', `${filePath} (${reason(error)})`, { cause: error });
  }
}

function problem(filePath: string, error: unknown): ScanEntry {
  const known =
    error instanceof WavepoolError
      ? error
      : new WavepoolError('INPUT_NOT_FOUND', `${filePath} (${reason(error)})`, { cause: error });
  return { kind: 'problem', path: filePath, code: known.code, message: known.message };
}

function notUtf8(filePath: string): ScanEntry {
  const { code, message } = new WavepoolError(
    'INVALID_REQUEST',
    `the file name is not valid UTF-8, rename it: ${filePath}`,
  );
  return { kind: 'problem', path: filePath, code, message };
}

function reason(error: unknown): string {
  if (!(error instanceof Error && 'code' in error)) return String(error);
  switch (error.code) {
    case 'ENOENT':
      return 'no such file';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'ELOOP':
      return 'a loop of symbolic links';
    default:
      return error.message;
  }
}

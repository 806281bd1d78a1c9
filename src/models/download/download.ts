/** What the downloads of all kinds of sources share: their interface, the places of files, and the check of their hashes. */
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import { sha256OfFile } from '../../core/files/file-hash.ts';
import { type Source, type SourceFile, sourceLabel } from '../catalogue/source.ts';

/** The variables that hold the settings of npm, pip, proxies and Hugging Face. */
export type Environment = Readonly<Record<string, string | undefined>>;

export interface DownloadOptions {
  /** Bytes received so far; starts again from less when what has come is of no use. */
  readonly onBytes?: (received: number) => void;
  readonly signal?: AbortSignal | undefined;
  /** The folder in which partial files outlive a pull that breaks off. Without it they are lost. */
  readonly partial?: string | undefined;
}

/**
 * Puts the source's `files` into `folder`, each where `fileOfSource` says, verified.
 * @throws {WavepoolError} MODEL_DOWNLOAD_FAILED, CANCELLED
 */
export type Download<Kind extends Source = Source> = (
  source: Kind,
  folder: string,
  options?: DownloadOptions,
) => Promise<void>;

/** The place where a download puts a file of its source. */
export function fileOfSource(folder: string, source: Source, file: SourceFile): string {
  return path.join(folder, source.kind === 'url' ? file.name : file.path);
}

/**
 * Checks that every file of the source is there and has the pinned hash.
 * @throws {WavepoolError} MODEL_DOWNLOAD_FAILED
 */
export async function verifyFiles(source: Source, folder: string): Promise<void> {
  for (const file of source.files) {
    const found = await sha256OfFile(fileOfSource(folder, source, file)).catch(
      (thrown: unknown) => {
        const reason = `${file.path} is missing from the package or has another size`;
        throw sourceFailed(source, reason, thrown);
      },
    );
    if (found === file.sha256) continue;
    throw sourceFailed(source, `${file.path} is not the file that this version was made for`);
  }
}

/** A failed download, said with its source and the reason. */
export function sourceFailed(source: Source, reason: string, cause?: unknown): WavepoolError {
  return new WavepoolError('MODEL_DOWNLOAD_FAILED', `${sourceLabel(source)}: ${reason}`, { cause });
}

/** Getting the files of a source, whatever its kind. */
import type { Source } from './source.ts';

export interface DownloadOptions {
  /** Bytes received so far; starts again from less when what has come is of no use. */
  readonly onBytes?: (received: number) => void;
  readonly signal?: AbortSignal | undefined;
  /** Where what has come so far outlives a pull that does not end; without it nothing does. */
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

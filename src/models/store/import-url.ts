/** One file from an address that the user gave. */
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import { sha256Of, sha256OfFile } from '../../core/files/file-hash.ts';
import { HttpsClient, withoutSecrets } from '../download/https-client.ts';
import type { Environment } from '../download/npm-settings.ts';
import { huggingFaceHeaders } from '../download/url-download.ts';
import type { MakeReport } from './model-maker.ts';

export interface ReceiveImportOptions {
  readonly environment: Environment;
  /** Survives an import that does not end. */
  readonly partial: string;
  readonly report: MakeReport;
  readonly signal: AbortSignal | undefined;
}

/** Larger than any model that runs here. */
const LARGEST_BYTES = 16 * 2 ** 30;

/** @throws {WavepoolError} MODEL_DOWNLOAD_FAILED, CANCELLED */
export async function receiveImport(
  address: URL,
  folder: string,
  { environment, partial, report, signal }: ReceiveImportOptions,
): Promise<void> {
  const url = fileAddress(address);
  await mkdir(partial, { recursive: true });
  const received = path.join(partial, sha256Of(url.href).slice(0, 16));
  const remote = { url, headers: huggingFaceHeaders(url, environment), maxBytes: LARGEST_BYTES };
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

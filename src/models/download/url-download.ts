/** Downloads single files from Hugging Face (or a mirror with the same paths), or from any address. */
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import { sha256OfFile } from '../../core/files/file-hash.ts';
import type { HuggingFaceSource, SourceFile, UrlSource } from '../catalogue/source.ts';
import {
  type Download,
  type DownloadOptions,
  type Environment,
  fileOfSource,
  sourceFailed,
} from './download.ts';
import type { HttpsClient, RemoteFile } from './https-client.ts';

const HUGGING_FACE = 'https://huggingface.co';

/** `HF_ENDPOINT` names a mirror, `HF_TOKEN` is for repositories that are not open to all. */
export function huggingFaceDownload(
  environment: Environment,
  client: HttpsClient,
): Download<HuggingFaceSource> {
  const { HF_ENDPOINT: endpoint, HF_TOKEN: token } = environment;
  return (source, folder, options = {}) => {
    const addressOf = ({ path: file }: SourceFile) =>
      new URL(`${base(endpoint)}/${source.repository}/resolve/${source.revision}/${file}`);
    const headers = authorization(base(endpoint), token);
    const hint = `${endpoint ? 'check HF_ENDPOINT and HTTPS_PROXY' : 'set HF_ENDPOINT to a mirror, or HTTPS_PROXY'}; or fetch the file elsewhere and run: wavepool models import FILE`;
    return receiveAll(source, folder, client, options, { addressOf, headers, hint });
  };
}

export function urlDownload(client: HttpsClient): Download<UrlSource> {
  return (source, folder, options = {}) =>
    receiveAll(source, folder, client, options, {
      addressOf: ({ path: address }) => new URL(address),
      headers: {},
      hint: 'check the address and HTTPS_PROXY',
    });
}

function base(endpoint: string | undefined): string {
  const chosen = (endpoint || HUGGING_FACE).replace(/\/+$/, '');
  if (/^https?:$/.test(URL.canParse(chosen) ? new URL(chosen).protocol : '')) return chosen;
  throw new WavepoolError('INVALID_REQUEST', `HF_ENDPOINT is ${chosen}, which is no address`);
}

/** The headers for an address that the user gave, which may be one of Hugging Face. */
export function huggingFaceHeaders(
  { origin }: URL,
  { HF_ENDPOINT: endpoint, HF_TOKEN: token }: Environment,
): Record<string, string> {
  const own = base(endpoint);
  return new URL(own).origin === origin ? authorization(own, token) : {};
}

/** A token never travels without encryption, except on this machine. */
function authorization(address: string, token: string | undefined): Record<string, string> {
  const { protocol, hostname } = new URL(address);
  const isSafe = protocol === 'https:' || ['127.0.0.1', '[::1]', 'localhost'].includes(hostname);
  return token && isSafe ? { authorization: `Bearer ${token}` } : {};
}

interface Place {
  readonly addressOf: (file: SourceFile) => URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Tells the user what to do when the download fails. */
  readonly hint: string;
}

async function receiveAll(
  source: HuggingFaceSource | UrlSource,
  folder: string,
  client: HttpsClient,
  { partial, onBytes, signal }: DownloadOptions,
  { addressOf, headers, hint }: Place,
): Promise<void> {
  let finished = 0;
  for (const file of source.files) {
    const target = fileOfSource(folder, source, file);
    const received = path.join(partial ?? path.dirname(target), `${file.sha256.slice(0, 16)}`);
    await mkdir(path.dirname(target), { recursive: true });
    await mkdir(path.dirname(received), { recursive: true });
    const url = addressOf(file);
    const remote: RemoteFile = { url, headers, bytes: file.bytes, maxBytes: file.bytes };
    try {
      await client.receive(remote, received, {
        onBytes: (bytes) => onBytes?.(finished + bytes),
        signal,
      });
    } catch (thrown) {
      if (signal?.aborted) throw new WavepoolError('CANCELLED', `download of ${file.path}`);
      if (!(thrown instanceof WavepoolError)) throw thrown;
      const answered = /credentials|allow/.test(thrown.detail) ? '; HF_TOKEN holds a token' : '';
      throw sourceFailed(source, `${url.origin}: ${thrown.detail}${answered}; ${hint}`, thrown);
    }
    if ((await sha256OfFile(received)) !== file.sha256) {
      await rm(received);
      const reason = `${url.origin} served another file than this version was made for; ${hint}`;
      throw sourceFailed(source, reason);
    }
    await rename(received, target);
    finished += file.bytes;
  }
}

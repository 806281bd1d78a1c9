/**
 * Fetches an input from a URL that somebody else chose; see `public-address.ts`. Each redirect leads to a new URL, which is
 * checked in the same way.
 */
import { open } from 'node:fs/promises';
import { type Dispatcher, request } from 'undici';
import { WavepoolError } from '../core/errors.ts';
import type { UrlLimits } from '../core/worker/worker-settings.ts';
import { type FetchedInput, fetchToFile } from './fetched-file.ts';
import { AddressError, checkedAddress, pinnedTo, type ResolveName } from './public-address.ts';

export type { UrlLimits } from '../core/worker/worker-settings.ts';

export interface FetchOptions {
  /** @defaultValue the system's resolver */
  readonly resolve?: ResolveName;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/**
 * @throws {WavepoolError} INPUT_FORBIDDEN, INPUT_NOT_FOUND, INPUT_TOO_LARGE, INPUT_FETCH_FAILED, STORAGE_FULL; the
 *   signal's reason
 */
export async function fetchInput(
  url: string,
  limits: UrlLimits,
  signal?: AbortSignal,
  { resolve }: FetchOptions = {},
): Promise<FetchedInput> {
  const late = AbortSignal.timeout(limits.timeoutMs);
  const both = signal === undefined ? late : AbortSignal.any([signal, late]);
  try {
    return await fetchToFile((path) => new Fetch(limits, both, resolve).save(url, path));
  } catch (error) {
    signal?.throwIfAborted();
    if (late.aborted) throw failed(`not within ${limits.timeoutMs} ms`, error);
    throw toFetchError(error);
  }
}

class Fetch {
  readonly #limits: UrlLimits;
  readonly #signal: AbortSignal;
  readonly #resolve: ResolveName | undefined;

  constructor(limits: UrlLimits, signal: AbortSignal, resolve: ResolveName | undefined) {
    this.#limits = limits;
    this.#signal = signal;
    this.#resolve = resolve;
  }

  async save(first: string, path: string): Promise<void> {
    let url = new URL(first);
    for (let hop = 0; hop <= this.#limits.maxRedirects; hop += 1) {
      const next = await this.#saveOrFollow(url, path);
      if (next === undefined) return;
      url = next;
    }
    throw failed(`more than ${this.#limits.maxRedirects} redirects`);
  }

  /** Returns the URL of a redirect, or undefined when the file was saved. */
  async #saveOrFollow(url: URL, path: string): Promise<URL | undefined> {
    const { allowedNetworks } = this.#limits;
    const options = { allowedNetworks, resolve: this.#resolve, signal: this.#signal };
    const agent = pinnedTo(await checkedAddress(url, options));
    try {
      const response = await request(url, {
        dispatcher: agent,
        signal: this.#signal,
        headers: { 'accept-encoding': 'identity', 'user-agent': 'wavepool' },
      });
      const { location } = response.headers;
      if (REDIRECTS.has(response.statusCode) && typeof location === 'string') {
        if (!URL.canParse(location, url.href)) throw failed('it redirects to what is no URL');
        return new URL(location, url.href);
      }
      assertFound(response.statusCode);
      await this.#write(response, path);
      return undefined;
    } finally {
      await agent.destroy();
    }
  }

  async #write({ headers, body }: Dispatcher.ResponseData, path: string): Promise<void> {
    const { maxBytes } = this.#limits;
    if (Number(headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes);
    const file = await open(path, 'wx', 0o600);
    try {
      let bytes = 0;
      for await (const chunk of body) {
        // undici's bodies are byte streams, although the type of their iterator is `any`.
        const piece = chunk as Uint8Array;
        bytes += piece.length;
        if (bytes > maxBytes) throw tooLarge(maxBytes);
        await file.writeFile(piece);
      }
    } finally {
      await file.close();
    }
  }
}

function assertFound(status: number): void {
  if (status >= 200 && status < 300) return;
  const mayPass = status === 408 || status === 429 || status >= 500 || status < 400;
  if (mayPass) throw failed(`the answer is status ${status}`);
  throw new WavepoolError('INPUT_NOT_FOUND', `the answer is status ${status}`);
}

function tooLarge(maxBytes: number): WavepoolError {
  return new WavepoolError('INPUT_TOO_LARGE', `more than ${maxBytes} bytes`);
}

function failed(why: string, cause?: unknown): WavepoolError {
  return new WavepoolError('INPUT_FETCH_FAILED', why, { cause });
}

function toFetchError(error: unknown): unknown {
  if (error instanceof WavepoolError || !(error instanceof Error)) return error;
  if (error instanceof AddressError) {
    const code = error.isForbidden ? 'INPUT_FORBIDDEN' : 'INPUT_FETCH_FAILED';
    return new WavepoolError(code, error.message, { cause: error.cause });
  }
  const code = 'code' in error ? String(error.code) : '';
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new WavepoolError('STORAGE_FULL', 'no space left for the input', { cause: error });
  }
  return failed(code === '' ? error.message : code, error);
}

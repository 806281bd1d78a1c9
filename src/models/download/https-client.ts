/**
 * Downloads over HTTPS that go on where they stopped: after a broken connection at once, after the death of the process
 * with the next pull. What has come is kept beside a note of what it is part of; the server is asked to go on only if that
 * has not changed (If-Range). Redirects are few, never lead away from encryption and take no credentials along.
 */
import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { type Dispatcher, EnvHttpProxyAgent, request } from 'undici';
import { WavepoolError } from '../../core/errors.ts';
import type { Environment } from './download.ts';

export interface HttpsClientOptions {
  /** `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` are read from it. */
  readonly environment: Environment;
  /** Certificates besides those of the system. */
  readonly ca?: string;
  /** Before the second try; doubled before each further one. @defaultValue 500 */
  readonly retryDelayMs?: number;
}

export interface RemoteFile {
  readonly url: URL;
  /** Sent to this origin only. */
  readonly headers?: Readonly<Record<string, string>>;
  /** When known; the file has this size or is refused. */
  readonly bytes?: number;
  /** A larger file is refused. */
  readonly maxBytes: number;
}

export interface ReceivedFile {
  readonly bytes: number;
  /** SHA-256 that Hugging Face told of a large file, hexadecimal. */
  readonly linkedSha256: string | undefined;
}

export interface ReceiveOptions {
  readonly onBytes?: ((received: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

const MOST_REDIRECTS = 8;
/** Tries in a row that bring nothing. */
const MOST_FAILURES = 5;
const CONNECT_MS = 10_000;
const SILENCE_MS = 30_000;
const LARGEST_JSON_BYTES = 32 * 2 ** 20;

export class HttpsClient implements AsyncDisposable {
  readonly #dispatcher: Dispatcher;
  readonly #retryDelayMs: number;

  constructor({ environment, ca, retryDelayMs = 500 }: HttpsClientOptions) {
    const setting = (name: string) => environment[name.toLowerCase()] ?? environment[name] ?? '';
    const tls = { timeout: CONNECT_MS, ...(ca === undefined ? {} : { ca }) };
    this.#dispatcher = new EnvHttpProxyAgent({
      httpProxy: setting('HTTP_PROXY'),
      httpsProxy: setting('HTTPS_PROXY'),
      noProxy: setting('NO_PROXY'),
      connect: tls,
      requestTls: tls,
      headersTimeout: SILENCE_MS,
      bodyTimeout: SILENCE_MS,
    });
    this.#retryDelayMs = retryDelayMs;
  }

  /**
   * Brings the file to `target`, which is whole when this returns. `target.part` and `target.part.json` keep what has come.
   * @throws {WavepoolError} MODEL_DOWNLOAD_FAILED with a reason that does not repeat the address; the signal's reason
   */
  async receive(
    remote: RemoteFile,
    target: string,
    options: ReceiveOptions = {},
  ): Promise<ReceivedFile> {
    const part = new PartialFile(`${target}.part`);
    for (let failures = 0; ; ) {
      options.signal?.throwIfAborted();
      const before = await part.bytes();
      try {
        const received = await this.#continue(remote, part, options);
        await rename(part.path, target);
        await part.forget();
        return received;
      } catch (thrown) {
        options.signal?.throwIfAborted();
        if (!isPassing(thrown)) throw asFailure(thrown);
        failures = (await part.bytes()) > before ? 1 : failures + 1;
        if (failures >= MOST_FAILURES) throw asFailure(thrown);
        const signal = options.signal ? { signal: options.signal } : {};
        await delay(this.#retryDelayMs * 2 ** (failures - 1), undefined, signal);
      }
    }
  }

  /**
   * A small document.
   * @throws {WavepoolError} MODEL_DOWNLOAD_FAILED
   */
  async json(url: URL, signal?: AbortSignal): Promise<unknown> {
    try {
      const { response } = await this.#request({ url, maxBytes: LARGEST_JSON_BYTES }, {}, signal);
      if (response.statusCode !== 200) throw await refusal(response);
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of response.body as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > LARGEST_JSON_BYTES) throw failure('the answer is far too large');
        chunks.push(chunk);
      }
      return JSON.parse(Buffer.concat(chunks).toString('utf8'));
    } catch (thrown) {
      signal?.throwIfAborted();
      if (thrown instanceof SyntaxError) throw failure('the answer is no JSON', thrown);
      throw asFailure(thrown);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dispatcher.destroy();
  }

  async #continue(
    remote: RemoteFile,
    part: PartialFile,
    options: ReceiveOptions,
  ): Promise<ReceivedFile> {
    const { signal, onBytes } = options;
    const held = await part.resumable(remote.url);
    const range: Record<string, string> =
      held === undefined ? {} : { range: `bytes=${held.bytes}-`, 'if-range': held.validator };
    const { response, linkedSha256 } = await this.#request(remote, range, signal);
    const { statusCode, headers, body } = response;
    if (statusCode !== 200 && statusCode !== 206) {
      // The rest of a file that is there whole, or of one that has become shorter.
      if (statusCode === 416) await part.forget();
      throw await refusal(response);
    }
    const start = statusCode === 206 ? (held?.bytes ?? 0) : 0;
    try {
      const total = totalBytes(headers, statusCode, start);
      checkSize(remote, total);
      await part.note(remote.url, validatorOf(headers));
      const received = await part.append(body, start, (bytes) => {
        if (bytes > (total ?? remote.maxBytes)) throw failure('more comes than was announced');
        onBytes?.(bytes);
      });
      if (total !== undefined && received < total) throw new BrokenTransfer('it ended early');
      checkSize(remote, received);
      return { bytes: received, linkedSha256 };
    } finally {
      body.destroy();
    }
  }

  async #request(
    remote: RemoteFile,
    extra: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ) {
    let url = remote.url;
    let linkedSha256: string | undefined;
    for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
      const own = url.origin === remote.url.origin ? remote.headers : {};
      const response = await request(url, {
        dispatcher: this.#dispatcher,
        headers: { 'accept-encoding': 'identity', 'user-agent': 'wavepool', ...own, ...extra },
        ...(signal === undefined ? {} : { signal }),
      });
      linkedSha256 ??= sha256In(text(response.headers['x-linked-etag']));
      const { location: header } = response.headers;
      const location = text(header);
      if (![301, 302, 303, 307, 308].includes(response.statusCode) || location === undefined) {
        return { response, linkedSha256 };
      }
      await response.body.dump();
      const next = new URL(location, url);
      if (next.protocol !== 'https:' && !(next.protocol === 'http:' && url.protocol === 'http:')) {
        throw failure('it redirects to an address without encryption');
      }
      url = next;
    }
    throw failure(`it redirects more than ${MOST_REDIRECTS} times`);
  }
}

/** The part of a file that has come, with a note of which file it is. */
class PartialFile {
  readonly path: string;
  readonly #note: string;

  constructor(path: string) {
    this.path = path;
    this.#note = `${path}.json`;
  }

  bytes(): Promise<number> {
    return stat(this.path).then(
      ({ size }) => size,
      () => 0,
    );
  }

  /** Writes the chunks. Bytes are counted once they are written. @returns how many there are then */
  async append(
    chunks: AsyncIterable<Buffer>,
    start: number,
    onBytes: (bytes: number) => void,
  ): Promise<number> {
    await using file = await open(this.path, start === 0 ? 'w' : 'a');
    let bytes = start;
    onBytes(bytes);
    for await (const chunk of chunks) {
      let done = 0;
      while (done < chunk.length) done += (await file.write(chunk, done)).bytesWritten;
      bytes += chunk.length;
      onBytes(bytes);
    }
    return bytes;
  }

  /** Undefined where the server could not tell whether the file is still the same. */
  async resumable(url: URL): Promise<{ bytes: number; validator: string } | undefined> {
    const bytes = await this.bytes();
    if (bytes === 0) return undefined;
    try {
      const note: unknown = JSON.parse(await readFile(this.#note, 'utf8'));
      if (typeof note !== 'object' || note === null) return undefined;
      if (!('url' in note && 'validator' in note) || note.url !== withoutSecrets(url))
        return undefined;
      return typeof note.validator === 'string' ? { bytes, validator: note.validator } : undefined;
    } catch {
      // Killed while it was written, or never written: begin again.
      return undefined;
    }
  }

  async note(url: URL, validator: string | undefined): Promise<void> {
    if (validator === undefined) await rm(this.#note, { force: true });
    else await writeFile(this.#note, JSON.stringify({ url: withoutSecrets(url), validator }));
  }

  async forget(): Promise<void> {
    await rm(this.path, { force: true });
    await rm(this.#note, { force: true });
  }
}

/** An address as it may be shown and stored. */
export function withoutSecrets(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

type Headers = Dispatcher.ResponseData['headers'];

/** Strong ones only: the rest must be of the same bytes. */
function validatorOf(headers: Headers): string | undefined {
  const { etag: header } = headers;
  const etag = text(header);
  if (etag?.startsWith('"')) return etag;
  return text(headers['last-modified']);
}

function totalBytes(headers: Headers, status: number, start: number): number | undefined {
  if (status === 206) {
    const [, from, total] =
      /^bytes (\d+)-\d+\/(\d+)$/.exec(text(headers['content-range']) ?? '') ?? [];
    if (Number(from) !== start) throw failure('the server sends another part than was asked for');
    return Number(total);
  }
  const length = text(headers['content-length']);
  return length === undefined ? undefined : Number(length);
}

function checkSize({ bytes, maxBytes }: RemoteFile, found: number | undefined): void {
  if (found === undefined) return;
  if (bytes !== undefined && found !== bytes) {
    throw failure(`the file has ${found} bytes where ${bytes} were expected`);
  }
  if (found > maxBytes) throw failure(`the file has ${found} bytes, more than ${maxBytes}`);
}

function text(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

function sha256In(etag: string | undefined): string | undefined {
  return /^"?([0-9a-f]{64})"?$/.exec(etag ?? '')?.[1];
}

/** The connection was lost; trying again may help. */
class BrokenTransfer extends Error {}

const STATUS_REASONS: Readonly<Record<number, string>> = {
  401: 'the server wants credentials',
  403: 'the server does not allow it',
  404: 'there is no such file',
  410: 'there is no such file any more',
  429: 'the server wants fewer requests; try again later',
};

async function refusal({ statusCode, body }: Dispatcher.ResponseData): Promise<Error> {
  await body.dump();
  const reason = STATUS_REASONS[statusCode] ?? `the server answered ${statusCode}`;
  const passes = statusCode >= 500 || statusCode === 408 || statusCode === 416;
  return passes ? new BrokenTransfer(reason) : failure(reason);
}

function failure(reason: string, cause?: unknown): WavepoolError {
  return new WavepoolError('MODEL_DOWNLOAD_FAILED', reason, { cause });
}

const REASONS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the name of the server cannot be resolved',
  EAI_AGAIN: 'the name of the server cannot be resolved',
  ECONNREFUSED: 'the server refused the connection',
  ECONNRESET: 'the connection was lost',
  ENETUNREACH: 'the network cannot be reached',
  EHOSTUNREACH: 'the server cannot be reached',
  ETIMEDOUT: 'the server did not answer in time',
  UND_ERR_CONNECT_TIMEOUT: 'the server did not answer in time',
  UND_ERR_HEADERS_TIMEOUT: 'the server did not answer in time',
  UND_ERR_BODY_TIMEOUT: 'nothing came any more',
  UND_ERR_SOCKET: 'the connection was lost',
};
const PASSING = new Set([
  ...['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EAI_AGAIN', 'UND_ERR_SOCKET', 'UND_ERR_BODY_TIMEOUT'],
  ...[
    'UND_ERR_HEADERS_TIMEOUT',
    'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
    'ERR_STREAM_PREMATURE_CLOSE',
  ],
]);

function codeOf(thrown: unknown): string {
  if (thrown instanceof AggregateError && thrown.errors.length > 0) return codeOf(thrown.errors[0]);
  return thrown instanceof Error && 'code' in thrown ? String(thrown.code) : '';
}

function isPassing(thrown: unknown): boolean {
  return thrown instanceof BrokenTransfer || PASSING.has(codeOf(thrown));
}

function asFailure(thrown: unknown): unknown {
  if (thrown instanceof BrokenTransfer) return failure(thrown.message, thrown);
  if (!(thrown instanceof Error) || thrown instanceof WavepoolError) return thrown;
  // Those of the file system are told by whoever knows the folder.
  if ('syscall' in thrown && 'path' in thrown) return thrown;
  const code = codeOf(thrown);
  if (code === '') return thrown;
  const isCertificate = /CERT|SIGNATURE|SELF_SIGNED/.test(code);
  const certificate = `its certificate is not trusted here (${code}); NODE_EXTRA_CA_CERTS names a file of more authorities`;
  return failure(isCertificate ? certificate : (REASONS[code] ?? `the answer was ${code}`), thrown);
}

/** Audio on its way to the server: read as it is sent, whatever it comes from. */
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { WavepoolError } from '../core/errors.ts';

/** A path, a `file:` URL, bytes, a `Blob` or `File`, or a stream of bytes, which can be sent only once. */
export type AudioSource =
  | string
  | URL
  | Uint8Array
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>;

export interface OpenedBody extends AsyncDisposable {
  readonly body: Blob | AsyncIterable<Uint8Array>;
  /** What went wrong at the source's end while the body was sent. */
  readonly failure: { readonly error: unknown } | undefined;
}

export interface AudioBody {
  /** What the source is called, when it has a name. */
  readonly name: string | undefined;
  /** Whether it can be opened again. */
  readonly replayable: boolean;
  /** @throws {WavepoolError} INPUT_NOT_FOUND */
  open(): Promise<OpenedBody>;
}

/** @throws {WavepoolError} INVALID_REQUEST for an address that is not a file's */
export function audioBody(source: AudioSource): AudioBody {
  if (typeof source === 'string') return fileBody(source);
  if (source instanceof URL) return fileBody(pathOf(source));
  if (source instanceof Uint8Array) return blobBody(new Blob([bytesOf(source)]), undefined);
  if (source instanceof Blob) return blobBody(source, 'name' in source ? source.name : undefined);
  return {
    name: undefined,
    replayable: false,
    open: () => Promise.resolve(opened(source, () => Promise.resolve())),
  };
}

function pathOf(url: URL): string {
  if (url.protocol === 'file:') return fileURLToPath(url);
  throw new WavepoolError('INVALID_REQUEST', `${url.protocol} is not file:; give it as \`url\``);
}

/** Blobs do not take memory that is shared between threads. */
function bytesOf(source: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = source;
  return buffer instanceof ArrayBuffer
    ? new Uint8Array(buffer, byteOffset, byteLength)
    : new Uint8Array(source);
}

function blobBody(blob: Blob, name: unknown): AudioBody {
  return {
    name: typeof name === 'string' && name !== '' ? name : undefined,
    replayable: true,
    open: () =>
      Promise.resolve({
        body: blob,
        failure: undefined,
        [Symbol.asyncDispose]: () => Promise.resolve(),
      }),
  };
}

function fileBody(path: string): AudioBody {
  return { name: basename(path), replayable: true, open: () => openFile(path) };
}

async function openFile(path: string): Promise<OpenedBody> {
  const file = await open(path).catch((cause: unknown) => {
    const why = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
    throw new WavepoolError('INPUT_NOT_FOUND', `${path} (${why})`, { cause });
  });
  const close = (): Promise<void> => file.close();
  try {
    if ((await file.stat()).isDirectory()) {
      throw new WavepoolError('INPUT_NOT_FOUND', `${path} is a directory`);
    }
  } catch (error) {
    await close();
    throw error;
  }
  return opened(file.createReadStream({ autoClose: false }), close);
}

/** A sender tells only that a body broke off; why is kept here. */
function opened(source: AsyncIterable<Uint8Array>, close: () => Promise<void>): OpenedBody {
  let failure: { error: unknown } | undefined;
  async function* read(): AsyncGenerator<Uint8Array> {
    try {
      yield* source;
    } catch (error) {
      failure = { error };
      throw error;
    }
  }
  return {
    body: read(),
    get failure() {
      return failure;
    },
    [Symbol.asyncDispose]: close,
  };
}

import { createHash } from 'node:crypto';
import { WavepoolError } from '../core/errors.ts';
import { PresignResource, UploadResource } from '../core/http/api.ts';
import { answerAs } from './answers.ts';
import { type AudioBody, type AudioSource, audioBody } from './audio-source.ts';
import type { Transport } from './transport.ts';

export interface UploadOptions {
  /** What the audio is called. @defaultValue the file's own name, if it has one */
  readonly name?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Audio that is sent before the jobs that use it. */
export class Uploads {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Sends audio as it is read; it is never held as a whole. The same bytes are stored once. A stream is sent once, anything
   * else again when the connection breaks.
   * @throws {WavepoolError} INPUT_NOT_FOUND, INPUT_EMPTY, INPUT_TOO_LARGE, STORAGE_FULL; what a stream fails with
   */
  async create(source: AudioSource, options: UploadOptions = {}): Promise<UploadResource> {
    const audio = audioBody(source);
    const { name = audio.name, signal } = options;
    return this.#transport.send(
      {
        method: 'POST',
        path: '/v1/uploads',
        query: { name },
        audio,
        // The store goes by content.
        idempotent: true,
        // It takes as long as it takes.
        timeoutMs: 0,
        signal,
      },
      answerAs(UploadResource),
    );
  }

  /**
   * Puts audio straight into the object storage of the server: it does not pass through the server. Reads the source twice, so
   * it cannot be a stream. Bytes that are stored already are not sent.
   * @throws {WavepoolError} PRESIGN_UNSUPPORTED when the server has no object storage; INVALID_REQUEST for a stream; INPUT_EMPTY,
   *   INPUT_NOT_FOUND, INPUT_TOO_LARGE, UPLOAD_MISMATCH, SERVER_UNREACHABLE
   */
  async createDirect(source: AudioSource, options: UploadOptions = {}): Promise<UploadResource> {
    const audio = audioBody(source);
    const { name = audio.name, signal } = options;
    if (!audio.replayable) {
      throw new WavepoolError('INVALID_REQUEST', 'a stream is read once: use `create` for it');
    }
    const announced = { ...(await measure(audio, signal)), name };
    const presigned = await this.#transport.send(
      { method: 'POST', path: '/v1/uploads/presign', json: announced, idempotent: true, signal },
      answerAs(PresignResource.or(UploadResource)),
    );
    if (!('token' in presigned)) return presigned;
    const { url, headers, token } = presigned;
    await this.#transport.put(url, { headers, audio, bytes: announced.bytes, signal });
    return this.#transport.send(
      {
        method: 'POST',
        path: '/v1/uploads/confirm',
        json: { ...announced, token },
        idempotent: true,
        // The server reads all of it.
        timeoutMs: 0,
        signal,
      },
      answerAs(UploadResource),
    );
  }
}

async function measure(
  audio: AudioBody,
  signal: AbortSignal | undefined,
): Promise<{ sha256: string; bytes: number }> {
  const hash = createHash('sha256');
  let bytes = 0;
  await using opened = await audio.open();
  const { body } = opened;
  for await (const piece of body instanceof Blob ? body.stream() : body) {
    signal?.throwIfAborted();
    hash.update(piece);
    bytes += piece.length;
  }
  if (bytes === 0) throw new WavepoolError('INPUT_EMPTY', 'the audio has no bytes');
  return { sha256: hash.digest('hex'), bytes };
}

import { UploadResource } from '../core/api.ts';
import { type AudioSource, audioBody } from './audio-source.ts';
import { answerAs } from './read-answer.ts';
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
}

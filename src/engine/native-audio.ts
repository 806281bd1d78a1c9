/** Inputs in native memory. */
import { WavepoolError } from '../core/errors.ts';
import type { Audio, AudioWarning, LiveAudio, PcmSamples, SourceInfo } from '../runtime/engine.ts';
import type { AudioHandle } from './binding.ts';
import { native, nativeSync } from './native-errors.ts';

export class NativeAudio implements Audio {
  readonly info: SourceInfo;
  readonly #handle: AudioHandle;
  #decoding: Promise<void> | undefined;
  #endSample = 0;
  #closing: Promise<void> | undefined;

  constructor(handle: AudioHandle) {
    this.#handle = handle;
    this.info = handle.info;
  }

  /** The handle of the addon behind an input. @throws {WavepoolError} INVALID_REQUEST for the audio of another engine */
  static handleOf(audio: Audio): AudioHandle {
    if (audio instanceof NativeAudio) return audio.#handle;
    throw new WavepoolError('INVALID_REQUEST', 'this audio belongs to another engine');
  }

  get endSample(): number {
    if (this.#closing === undefined) this.#endSample = this.#handle.endSample;
    return this.#endSample;
  }

  get ended(): boolean {
    return this.#handle.ended;
  }

  get warnings(): readonly AudioWarning[] {
    return this.#handle.warnings;
  }

  get residentBytes(): number {
    return this.#handle.residentBytes;
  }

  async decodeUntil(sample: number, signal?: AbortSignal): Promise<void> {
    if (this.#closing !== undefined || signal?.aborted) {
      throw new WavepoolError('CANCELLED', 'before decoding');
    }
    if (this.#decoding !== undefined) {
      throw new WavepoolError('INVALID_REQUEST', 'this input is being decoded already');
    }
    if (this.ended || this.endSample >= sample) return;
    const cancel = (): void => this.#handle.cancelDecode();
    const decoding = native(() => this.#handle.decodeUntil(sample));
    // close() waits for the end, and ignores whether it failed.
    this.#decoding = decoding.catch(() => undefined);
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      await decoding;
    } finally {
      signal?.removeEventListener('abort', cancel);
      this.#decoding = undefined;
    }
  }

  release(sample: number): void {
    if (this.#closing === undefined) nativeSync(() => this.#handle.release(sample));
  }

  close(): Promise<void> {
    if (this.#closing === undefined) {
      this.#endSample = this.#handle.endSample;
      this.#handle.cancelDecode();
      this.#closing = this.#finish(this.#decoding);
    }
    return this.#closing;
  }

  async #finish(decoding: Promise<void> | undefined): Promise<void> {
    await decoding;
    nativeSync(() => this.#handle.close());
  }
}

export class NativeLiveAudio extends NativeAudio implements LiveAudio {
  append(samples: PcmSamples): void {
    nativeSync(() => NativeAudio.handleOf(this).append(samples));
  }

  end(): void {
    nativeSync(() => NativeAudio.handleOf(this).end());
  }
}

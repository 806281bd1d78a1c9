import type { AudioRange, TaskResult, TaskStream } from '../runtime/engine.ts';
import type { StreamHandle } from './binding.ts';
import { NativeAudio } from './native-audio.ts';
import { native } from './native-errors.ts';

/** Collecting the handle resets an open stream. */
export class NativeTaskStream implements TaskStream {
  readonly #handle: StreamHandle;

  constructor(handle: StreamHandle) {
    this.#handle = handle;
  }

  push(chunk: Float32Array | AudioRange): Promise<TaskResult | undefined> {
    return native(() => {
      if (chunk instanceof Float32Array) return this.#handle.push(chunk);
      const { audio, startSample, endSample } = chunk;
      return this.#handle.push(NativeAudio.handleOf(audio), startSample, endSample);
    });
  }

  finish(): Promise<TaskResult> {
    return native(() => this.#handle.finish());
  }

  reset(): Promise<void> {
    return native(() => this.#handle.reset());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.reset();
  }
}

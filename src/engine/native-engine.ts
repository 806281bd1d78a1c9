/**
 * The engine over the native addon. The addon is loaded by the first call that needs it, so that importing this file
 * costs nothing.
 */
import { WavepoolError } from '../core/errors.ts';
import {
  type Audio,
  type AudioRange,
  type AudioSource,
  type BuildInfo,
  type Engine,
  type LiveAudio,
  type LoadedModel,
  type ModelInfo,
  type ModelPlan,
  type ModelPlanner,
  type NativeRun,
  type PcmFormat,
  type PoolOptions,
  SAMPLE_RATE,
  type SessionPool,
  type TaskItem,
  type TaskOptions,
  type TaskOutcome,
  type TaskResult,
  type TaskState,
  type TaskStream,
} from '../runtime/engine.ts';
import {
  addonPath,
  type Binding,
  loadBinding,
  type ModelHandle,
  type NativeItem,
  type NativeOutcome,
  type PoolHandle,
  type StateHandle,
  type StreamHandle,
} from './binding.ts';
import { NativeAudio, NativeLiveAudio } from './native-audio.ts';
import { fromNative, native, nativeSync } from './native-errors.ts';

class NativeTaskState implements TaskState {
  readonly kind = 'task-state';
  readonly #handle: StateHandle;

  constructor(handle: StateHandle) {
    this.#handle = handle;
  }

  static handleOf(state: TaskState | undefined): StateHandle | undefined {
    if (state === undefined) return undefined;
    if (state instanceof NativeTaskState) return state.#handle;
    throw new WavepoolError('INVALID_REQUEST', 'this state belongs to another engine');
  }
}

function toNativeItem(item: TaskItem): NativeItem {
  return {
    audio: NativeAudio.handleOf(item.audio),
    startSample: item.startSample,
    endSample: item.endSample,
    state: NativeTaskState.handleOf(item.state),
    options: item.options,
  };
}

function toOutcome(outcome: NativeOutcome): TaskOutcome {
  return outcome.ok ? outcome : { ok: false, error: fromNative(outcome.error) };
}

/** Calls the listener when the signal is aborted, at once if it is already. @returns stops listening */
function whenAborted(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => undefined;
  if (signal.aborted) listener();
  else signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}

type OnOutcome = (index: number, outcome: TaskOutcome) => void;

/** When its handle is garbage collected, an open stream is reset. */
class NativeTaskStream implements TaskStream {
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

class NativePool implements SessionPool {
  readonly size: number;
  readonly capacity: number;
  readonly maxBatch: number;
  readonly #handle: PoolHandle;
  /** Promises of the batches that run. */
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(handle: PoolHandle) {
    this.#handle = handle;
    this.size = handle.size;
    this.capacity = handle.capacity;
    this.maxBatch = handle.maxBatch;
  }

  get sessionBytes(): readonly number[] {
    return this.#handle.sessionBytes;
  }

  run(slot: number, items: readonly TaskItem[], onOutcome?: OnOutcome): NativeRun {
    const nativeItems = items.map(toNativeItem);
    const outcomes = new Map<number, TaskOutcome>();
    const failures: unknown[] = [];
    const stopListening: (() => void)[] = [];
    const run = nativeSync(() =>
      this.#handle.run(slot, nativeItems, (index, nativeOutcome) => {
        const outcome = toOutcome(nativeOutcome);
        outcomes.set(index, outcome);
        stopListening[index]?.();
        try {
          onOutcome?.(index, outcome);
        } catch (error) {
          // A throwing listener must not cost the other items their outcomes; the caller of run() learns of it.
          failures.push(error);
        }
      }),
    );
    const done = native(async () => {
      await run.done;
      if (failures.length > 0) throw failures[0];
      return items.map((_, index) => {
        const outcome = outcomes.get(index);
        if (outcome !== undefined) return outcome;
        throw new WavepoolError('INTERNAL', `item ${index} ended without an outcome`);
      });
    });
    for (const [index, { signal }] of items.entries()) {
      stopListening.push(whenAborted(signal, () => nativeSync(() => run.cancel(index))));
    }
    this.#running.add(done);
    const forget = (): void => {
      this.#running.delete(done);
      for (const stop of stopListening) stop();
    };
    done.then(forget, forget);
    return { done };
  }

  startStream(slot: number, options: TaskOptions): Promise<TaskStream> {
    return native(async () => new NativeTaskStream(await this.#handle.startStream(slot, options)));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const destroyed = native(() => this.#handle.close());
    // Callers that wait for a batch get its result before the pool is reported as closed.
    await Promise.allSettled(this.#running);
    await destroyed;
  }
}

class NativeModel implements LoadedModel {
  readonly info: ModelInfo;
  readonly #handle: ModelHandle;

  constructor(handle: ModelHandle) {
    this.#handle = handle;
    this.info = handle.info;
  }

  createPool(options: PoolOptions): Promise<SessionPool> {
    return native(async () => new NativePool(await this.#handle.createPool(options)));
  }

  createState(): TaskState {
    return nativeSync(() => new NativeTaskState(this.#handle.createState()));
  }

  close(): Promise<void> {
    this.#handle.close();
    return Promise.resolve();
  }
}

export interface NativeEngineOptions {
  /**
   * The addon to load.
   * @defaultValue see `addonPath`
   */
  readonly addon?: string | undefined;
}

/** A pipe whose write end a child process gets as stdio; the read end becomes an `AudioSource`. */
export interface AudioPipe {
  readonly readDescriptor: number;
  /** To be closed by the caller once the child has it, so that the end of the child ends the audio. */
  readonly writeDescriptor: number;
}

export class NativeEngine implements Engine, ModelPlanner {
  readonly #addon: string;
  #loaded: Binding | undefined;

  constructor(options: NativeEngineOptions = {}) {
    this.#addon = options.addon ?? addonPath();
  }

  get #binding(): Binding {
    this.#loaded ??= loadBinding(this.#addon);
    return this.#loaded;
  }

  /** @throws {WavepoolError} ADDON_MISSING, CPU_UNSUPPORTED (as every first use) */
  get build(): BuildInfo {
    return this.#binding.build;
  }

  openAudio(source: AudioSource): Promise<Audio> {
    return native(async () => {
      const handle =
        source.kind === 'file'
          ? await this.#binding.openFile(source.path, source.channel)
          : await this.#binding.openPipe(
              source.readDescriptor,
              source.stallTimeoutMs,
              source.channel,
            );
      return new NativeAudio(handle);
    });
  }

  openLiveAudio({ sampleRate = SAMPLE_RATE, channels = 1 }: PcmFormat = {}): LiveAudio {
    return nativeSync(() => new NativeLiveAudio(this.#binding.openLive(sampleRate, channels)));
  }

  /** Both ends are closed on exec unless they are passed on as stdio. */
  createPipe(): AudioPipe {
    return nativeSync(() => this.#binding.createPipe());
  }

  loadModel(path: string): Promise<LoadedModel> {
    return native(async () => new NativeModel(await this.#binding.loadModel(path)));
  }

  planModel(path: string, options: Omit<PoolOptions, 'slots'>): Promise<ModelPlan> {
    return native(() => this.#binding.planModel(path, options));
  }
}

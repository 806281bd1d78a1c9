/**
 * What the runtime needs from native code. `src/engine` implements it over the addon; tests of the runtime implement it
 * in a few lines. Audio stays in native memory: JavaScript holds handles and sample ranges.
 */
import type { WavepoolError } from '../core/errors.ts';

/** The sample rate of all decoded audio, in Hz. */
export const SAMPLE_RATE = 16_000;

export type TaskKind = 'asr' | 'vad';
export type RunMode = 'offline' | 'streaming';

/**
 * Where an input comes from: a local file that is decoded in this process, or a pipe that an ffmpeg child writes WAV into.
 * With `channel`, counted from 0, only that channel is decoded; without it, the mix of all channels.
 */
export type AudioSource = { readonly channel?: number | undefined } & (
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'pipe'; readonly readDescriptor: number; readonly stallTimeoutMs: number }
);

export interface SourceInfo {
  readonly container: string;
  readonly codec: string;
  /** The sample rate of the source in Hz, before resampling. */
  readonly sampleRate: number;
  readonly channels: number;
  readonly bitsPerSample: number;
}

export interface AudioWarning {
  readonly code: string;
  readonly message: string;
}

/** One input, decoded step by step into native memory as 16 kHz mono. */
export interface Audio {
  readonly info: SourceInfo;
  /** One past the last decoded sample. */
  readonly endSample: number;
  /** True once the whole input has been decoded. */
  readonly ended: boolean;
  readonly warnings: readonly AudioWarning[];
  /** Resident bytes of decoded samples. */
  readonly residentBytes: number;
  /**
   * Decodes until `endSample >= sample` or the input has ended. One call at a time.
   * @throws {WavepoolError} INPUT_UNDECODABLE, CANCELLED
   */
  decodeUntil(sample: number, signal?: AbortSignal): Promise<void>;
  /** Frees everything before `sample`. */
  release(sample: number): void;
  /** Frees everything; idempotent. A decode in progress ends with CANCELLED. */
  close(): Promise<void>;
}

/** How live PCM arrives; it becomes 16 kHz mono in native memory. */
export interface PcmFormat {
  /** Hz, 1,000…384,000. @defaultValue 16000 */
  readonly sampleRate?: number | undefined;
  /** 1…64, interleaved. @defaultValue 1 */
  readonly channels?: number | undefined;
}

/** Floats of full scale ±1, or 16-bit integers; interleaved when there are several channels. */
export type PcmSamples = Float32Array | Int16Array;

/**
 * An input that JavaScript appends to. `endSample` lags behind what was appended by up to 20 ms and the resampler's
 * context, until `end`. There is nothing to decode: `decodeUntil` refuses samples that are not there.
 */
export interface LiveAudio extends Audio {
  /**
   * Copies whole frames into native memory, in this turn.
   * @throws {WavepoolError} INVALID_REQUEST when a frame is cut, after `end` or `close`, or for another kind of array.
   */
  append(samples: PcmSamples): void;
  /** Says that no more samples will come. @throws {WavepoolError} INVALID_REQUEST the second time. */
  end(): void;
}

/** Samples [startSample, endSample) of one input. */
export interface AudioRange {
  readonly audio: Audio;
  readonly startSample: number;
  readonly endSample: number;
}

/** What a stateful task (VAD) keeps between requests of one input. Owned by the job; opaque. */
export interface TaskState {
  readonly kind: 'task-state';
}

export type TaskOptions = Readonly<Record<string, string | number | boolean>>;

/** Samples [startSample, endSample) of one input, for one task. */
export interface TaskItem {
  readonly audio: Audio;
  readonly startSample: number;
  readonly endSample: number;
  readonly state?: TaskState | undefined;
  readonly options: TaskOptions;
  /** Drops the item once it is aborted: its outcome becomes CANCELLED unless it had already ended. */
  readonly signal?: AbortSignal | undefined;
}

/** Times are seconds from the beginning of the item's audio and lie within it. */
export interface TimedWord {
  /** The word with its punctuation, and without spaces around it. */
  readonly text: string;
  readonly start: number;
  readonly end: number;
  /** The mean probability of its tokens, in [0, 1]. */
  readonly probability: number;
}

/** A part of an item's audio to which the recognizer itself gave times. */
export interface TimedPiece {
  /** The text without spaces around it; it is not empty. */
  readonly text: string;
  readonly start: number;
  readonly end: number;
  /** The mean natural logarithm of the probabilities of its tokens. */
  readonly averageLogProbability: number;
  /** The probability that nobody speaks here, in [0, 1]. */
  readonly noSpeechProbability: number;
  /** The temperature of the decoding that gave the text; 0 = greedy. */
  readonly temperature: number;
  /** Empty unless the request asks for words. */
  readonly words: readonly TimedWord[];
}

/** The results of all tasks in one type; each task fills its own members. */
export interface TaskResult {
  /** asr: the recognized text. */
  readonly text: string;
  /** asr: pieces with times, in order; empty for families that give no times. */
  readonly pieces: readonly TimedPiece[];
  /** asr: the given or detected language, ISO 639-1; empty when the family does not tell it. */
  readonly language: string;
  /** asr: token ids without the start and end tokens. */
  readonly tokens: Int32Array;
  /** asr: whether the token limit cut the text off. */
  readonly truncated: boolean;
  /** vad: one probability per window of the request. */
  readonly probabilities: Float32Array;
}

/** How one item of a batch ended; the others are not concerned. */
export type TaskOutcome =
  | { readonly ok: true; readonly result: TaskResult }
  | { readonly ok: false; readonly error: WavepoolError };

/** A batch running in native code. */
export interface NativeRun {
  /** Outcomes in the order of the items. Rejects only when the batch failed as a whole. */
  readonly done: Promise<readonly TaskOutcome[]>;
}

/**
 * A live input on one slot of a streaming pool, which the caller has leased until the stream has ended. Its results are
 * parts: one after the other they are what the task says of the whole input, however it was cut into pushes.
 *
 * It ends with `finish`, with `reset`, or with the first call that fails; then the session is as fresh as before. A
 * stream that is garbage collected is reset as well; the lease is its owner's to give back.
 */
export interface TaskStream extends AsyncDisposable {
  /**
   * Takes the next samples: 16 kHz mono floats, copied in this turn, or a range of an input in native memory, which must
   * stay resident until the promise settles. One call at a time.
   * @returns the part of the result that became final with these samples, if any.
   * @throws {WavepoolError} INVALID_REQUEST once it has ended or while another call runs, INPUT_UNDECODABLE, CANCELLED.
   */
  push(chunk: Float32Array | AudioRange): Promise<TaskResult | undefined>;
  /** Ends the stream. @returns the rest of the result. @throws {WavepoolError} as `push` */
  finish(): Promise<TaskResult>;
  /** Abandons the stream; a call that runs ends with CANCELLED. Resolves when the slot is free. Idempotent. */
  reset(): Promise<void>;
}

export interface PoolOptions {
  /** 1…16, within what the family supports. */
  readonly slots: number;
  readonly mode: RunMode;
  /** Compute threads per session. */
  readonly threads: number;
  /** Most items in one native batch. */
  readonly maxBatch: number;
  /**
   * Longest segment that must fit; a session takes memory for it.
   * @defaultValue the model's own limit
   */
  readonly maxSegmentSeconds?: number | undefined;
}

/** N sessions with private state over one set of weights. Does not schedule: `ModelSlots` leases the slots. */
export interface SessionPool {
  readonly size: number;
  /** What the family advertises for these options; may exceed `size`. */
  readonly capacity: number;
  readonly maxBatch: number;
  /** Resident bytes of each session, by slot. */
  readonly sessionBytes: readonly number[];
  /**
   * Starts a native batch on a slot that the caller has leased.
   * @param onOutcome called on the event loop as each item ends, before `done` resolves.
   * @throws {WavepoolError} SLOT_BUSY when the slot is already running, or has a stream.
   */
  run(
    slot: number,
    items: readonly TaskItem[],
    onOutcome?: (index: number, outcome: TaskOutcome) => void,
  ): NativeRun;
  /**
   * Starts a stream on a slot that the caller has leased, in a pool of the streaming mode.
   * @throws {WavepoolError} SLOT_BUSY when the slot runs a batch or has a stream; INVALID_REQUEST for an offline pool or
   * unknown options.
   */
  startStream(slot: number, options: TaskOptions): Promise<TaskStream>;
  /** Destroys the sessions after their running work; idempotent. */
  close(): Promise<void>;
}

export interface ModelInfo {
  readonly family: string;
  readonly task: TaskKind;
  readonly name: string;
  readonly weightBytes: number;
  readonly nativeBatch: boolean;
  /** Longest segment the model accepts, in seconds; 0 = unbounded. */
  readonly maxSegmentSeconds: number;
  /** vad: samples per probability; 0 otherwise. */
  readonly windowSamples: number;
  /** Requests carry a state from `createState()`. */
  readonly stateful: boolean;
  /** asr: the languages that it can recognize, ISO 639-1. */
  readonly languages: readonly string[];
  /** What `TaskItem.options` may hold; native/framework/sessions/session.h says what each means. */
  readonly optionNames: readonly string[];
}

/** What a model will need, told from the metadata of its file: no weights are read and no session is made. */
export interface ModelPlan {
  readonly info: ModelInfo;
  /** Sessions the family supports for these options, 1…16. */
  readonly capacity: number;
  /** Resident bytes of the weights, once per process. */
  readonly weightBytes: number;
  /** Private bytes of one session for this batch size and the longest segment. */
  readonly sessionBytes: number;
}

/** An engine that can tell what a model will need. */
export interface ModelPlanner {
  /** @throws {WavepoolError} INPUT_NOT_FOUND, MODEL_FILE_INVALID, INVALID_REQUEST */
  planModel(path: string, options: Omit<PoolOptions, 'slots'>): Promise<ModelPlan>;
}

export interface LoadedModel {
  readonly info: ModelInfo;
  /** @throws {WavepoolError} SLOTS_UNSUPPORTED, INSUFFICIENT_MEMORY, MODEL_LOAD_FAILED, INVALID_REQUEST */
  createPool(options: PoolOptions): Promise<SessionPool>;
  createState(): TaskState;
  /** Drops this reference to the weights; pools keep their own. Idempotent. */
  close(): Promise<void>;
}

export interface BuildInfo {
  /** Hash over native sources, ggml version, flags, compiler and kernel path (docs/architecture.md). */
  readonly identity: string;
  readonly ggml: string;
  readonly compiler: string;
  readonly flags: string;
  readonly backend: string;
}

export interface Engine {
  readonly build: BuildInfo;
  /** A pipe whose descriptors are not inherited: the write end is for a child process, the read end for `openAudio`. */
  createPipe(): { readonly readDescriptor: number; readonly writeDescriptor: number };
  /**
   * Takes over the descriptor of a pipe, also when it throws.
   * @throws {WavepoolError} INPUT_NOT_FOUND, INPUT_EMPTY, INPUT_UNDECODABLE; INVALID_REQUEST for a channel that is not there
   */
  openAudio(source: AudioSource): Promise<Audio>;
  /** An input in native memory that `append` fills. @throws {WavepoolError} INVALID_REQUEST */
  openLiveAudio(format?: PcmFormat): LiveAudio;
  /** @throws {WavepoolError} INPUT_NOT_FOUND, MODEL_FILE_INVALID, MODEL_LOAD_FAILED, INSUFFICIENT_MEMORY */
  loadModel(path: string): Promise<LoadedModel>;
}

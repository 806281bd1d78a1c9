/**
 * Speech in a live input, found while it comes in.
 *
 *   open ──finish──▶ finishing ──▶ closed
 *     └──cancel · abort · idle · shutdown · failure──▶ closed (every later call gets the reason)
 *
 * The stream holds one slot of its detector from start to end, whichever end it is, so managers of the detector (unload,
 * reconfigure) wait for it. Samples go into native memory in the turn of `write`; detection reads them there, one chunk
 * after the other. What is held of them is bounded: `write` resolves when there is room for the next chunk.
 */
import { setMaxListeners } from 'node:events';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import type { VadOptions } from '../../core/job/job.ts';
import { type Clock, systemClock, type Timer } from '../../runtime/clock.ts';
import {
  type LiveAudio,
  type ModelInfo,
  type PcmFormat,
  type PcmSamples,
  SAMPLE_RATE,
  type TaskStream,
} from '../../runtime/engine.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { StreamLease } from '../../runtime/models/stream-lease.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { cancellation } from '../../runtime/waiting.ts';
import {
  createSegmenter,
  type SpeechSegment,
  type SpeechSegmenter,
} from '../speech/speech-segmenter.ts';

/** The most audio in one `write`. */
export const LONGEST_CHUNK_SECONDS = 30;
/** Audio that is held beyond four of the longest segments: a chunk that is searched, and one that has just come. */
const SLACK_SECONDS = 2 * LONGEST_CHUNK_SECONDS;
const IDLE_TIMEOUT_MS = 30_000;

export interface LiveStreamOptions {
  readonly runtime: Runtime;
  /** A detector in streaming mode (`liveDetectorConfiguration`). */
  readonly detector: ModelEntry;
  /** The format of the samples that will be written. @defaultValue 16 kHz mono */
  readonly format?: PcmFormat | undefined;
  /** Ends the wait for a slot, and the stream, with CANCELLED or its own `WavepoolError`. */
  readonly signal?: AbortSignal | undefined;
  /**
   * A stream that gets nothing for so long, while nothing of it is in work, was abandoned: it ends with STREAM_IDLE and
   * gives its slot back. 0 = never. @defaultValue 30000
   */
  readonly idleTimeoutMs?: number | undefined;
  /** Bound on the wait for a slot, never longer than the model's own. @defaultValue the model's */
  readonly busyTimeoutMs?: number | undefined;
  /** Called when speech has begun, and when it has ended, before it is recognized. What it throws ends the stream. */
  readonly onSpeech?: ((change: SpeechChange) => void) | undefined;
  /** @defaultValue the system's */
  readonly clock?: Clock | undefined;
}

/** The beginning or the end of a segment. */
export type SpeechChange =
  | { readonly kind: 'started'; readonly start: number }
  | ({ readonly kind: 'ended' } & LiveSegment);

/** A stretch of speech, in seconds from the beginning of the stream. */
export interface LiveSegment {
  /** The segments of a stream are numbered 0, 1, 2, … */
  readonly index: number;
  readonly start: number;
  readonly end: number;
}

export interface LiveSummary {
  readonly durationSeconds: number;
  /** Does not count the audio that is kept around segments. */
  readonly speechSeconds: number;
  readonly segments: number;
}

/** Takes the segments of a stream. */
export interface SpeechSink {
  /** Segments that were taken and have not ended. */
  readonly pending: number;
  /** What it throws ends the stream. */
  take(segment: SpeechSegment): void;
  /**
   * The first sample that must stay in memory.
   * @param keepFrom what a later segment may begin with
   * @param searchedTo where detection stands
   */
  firstNeededSample(keepFrom: number, searchedTo: number): number;
  /** Resolves when the oldest pending segment has ended, well or badly. */
  oldestEnded(): Promise<void>;
  /** Resolves when all have. */
  allEnded(): Promise<void>;
}

/** What a sink may use of an open stream. */
export interface LiveContext {
  readonly audio: LiveAudio;
  /** Aborted when the stream fails. */
  readonly signal: AbortSignal;
  /** Ends the stream; the first reason counts. */
  readonly fail: (error: unknown) => void;
}

/** How speech is cut into segments. */
export interface LiveSegmenting {
  readonly vad: VadOptions;
  readonly longestSeconds: number;
}

type OpenOptions = LiveStreamOptions & {
  readonly segmenting: LiveSegmenting;
  readonly createSink: (context: LiveContext) => SpeechSink;
};

interface Resources {
  readonly audio: LiveAudio;
  readonly lease: StreamLease;
  readonly stream: TaskStream;
}

export class LiveStream implements AsyncDisposable {
  readonly #audio: LiveAudio;
  readonly #lease: StreamLease;
  readonly #stream: TaskStream;
  readonly #segmenter: SpeechSegmenter;
  readonly #sink: SpeechSink;
  readonly #onSpeech: (change: SpeechChange) => void;
  readonly #mostHeldSamples: number;
  readonly #clock: Clock;
  readonly #idleTimeoutMs: number;
  /** The signal of the caller, and the one of a shutdown. */
  readonly #signals: readonly AbortSignal[];
  readonly #abort = new AbortController();
  /** Ends with the last call so far: calls run one after the other. It never rejects. */
  #tail: Promise<unknown> = Promise.resolve();
  #calls = 0;
  #idleTimer: Timer | undefined;
  #searchedTo = 0;
  #segments = 0;
  #toldStart = -1;
  #finishing = false;
  #failure: WavepoolError | undefined;
  #closing: Promise<void> | undefined;
  /** Resolves, never rejects, when the stream has ended, its slot is free and nothing of it runs any more. */
  readonly closed: Promise<void>;
  #tellClosed: () => void = () => undefined;

  private constructor(options: OpenOptions, { audio, lease, stream }: Resources) {
    const { segmenting, signal, clock = systemClock, idleTimeoutMs = IDLE_TIMEOUT_MS } = options;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
    this.#audio = audio;
    this.#lease = lease;
    this.#stream = stream;
    this.#onSpeech = options.onSpeech ?? (() => undefined);
    this.#clock = clock;
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#signals = [signal, lease.ending].filter((one) => one !== undefined);
    this.#segmenter = createSegmenter({ ...segmenting, windowSamples: lease.info.windowSamples });
    this.#mostHeldSamples = (SLACK_SECONDS + 4 * segmenting.longestSeconds) * SAMPLE_RATE;
    this.#sink = options.createSink({
      audio,
      signal: this.#abort.signal,
      fail: (error) => void this.#end(toWavepoolError(error)),
    });
    // Every pending segment listens to it. Node takes more than ten listeners for a leak.
    setMaxListeners(0, this.#abort.signal);
    for (const each of this.#signals) each.addEventListener('abort', this.#onAbort);
    this.#watchIdleness();
  }

  /** @throws {WavepoolError} INVALID_REQUEST, BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED, or why the detector has no model. */
  static async open(options: OpenOptions): Promise<LiveStream> {
    const { runtime, detector, signal, busyTimeoutMs, idleTimeoutMs = 0 } = options;
    if (!(idleTimeoutMs >= 0)) {
      throw new WavepoolError('INVALID_REQUEST', `idleTimeoutMs is 0 or more: ${idleTimeoutMs}`);
    }
    const audio = runtime.engine.openLiveAudio(options.format);
    try {
      const lease = await detector.acquireStream({ busyTimeoutMs, signal });
      try {
        assertDetects(detector.id, lease.info);
        const stream = await lease.pool.startStream(lease.slot, {});
        const live = new LiveStream(options, { audio, lease, stream });
        // It was aborted while the stream was being started.
        await live.#obeySignals();
        if (live.#failure) throw live.#failure;
        return live;
      } catch (error) {
        lease.release();
        throw error;
      }
    } catch (error) {
      await audio.close();
      throw error;
    }
  }

  /**
   * Takes the next samples, which are copied in this turn. Resolves when speech has been looked for in them and there is
   * room for more: who waits for each write before the next never holds too much. Up to the bound, writes may also be
   * made without waiting.
   * @throws {WavepoolError} QUEUE_FULL, INPUT_TOO_LARGE (more than 30 seconds) and INVALID_REQUEST for what was not taken,
   * after which the stream goes on; otherwise what ended the stream.
   */
  async write(samples: PcmSamples): Promise<void> {
    this.#assertOpen();
    this.#assertRoom(samples);
    this.#audio.append(samples);
    const { endSample } = this.#audio;
    await this.#enqueue(async () => {
      await this.#search(endSample);
      await this.#roomForMore();
    });
  }

  /**
   * Ends the input, and with it the speech that was still going on. Resolves when all segments have been reported.
   * @throws {WavepoolError} what ended the stream instead; INVALID_REQUEST the second time.
   */
  async finish(): Promise<LiveSummary> {
    this.#assertOpen();
    this.#finishing = true;
    this.#audio.end();
    const { endSample } = this.#audio;
    await this.#enqueue(async () => {
      await this.#search(endSample);
      this.#take((await this.#stream.finish()).probabilities);
      for (const segment of this.#segmenter.finish(endSample)) this.#tell(segment);
      // Recognition goes on without the detector.
      this.#lease.release();
      await this.#sink.allEnded();
    });
    this.#closing ??= this.#close();
    await this.#closing;
    if (this.#failure) throw this.#failure;
    return {
      durationSeconds: endSample / SAMPLE_RATE,
      speechSeconds: this.#segmenter.speechSamples / SAMPLE_RATE,
      segments: this.#segments,
    };
  }

  /** Abandons the stream: what runs ends with CANCELLED. Resolves when its slot is free; does nothing after the end. */
  async cancel(): Promise<void> {
    await this.#end(new WavepoolError('CANCELLED', 'the live stream was cancelled'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cancel();
  }

  readonly #onAbort = (): void => void this.#obeySignals();

  async #obeySignals(): Promise<void> {
    const aborted = this.#signals.find((signal) => signal.aborted);
    if (aborted) await this.#end(cancellation(aborted));
  }

  #assertOpen(): void {
    if (this.#failure) throw this.#failure;
    if (this.#finishing) throw new WavepoolError('INVALID_REQUEST', 'the live stream has ended');
  }

  #assertRoom(samples: PcmSamples): void {
    const { sampleRate, channels } = this.#audio.info;
    const seconds = samples.length / channels / sampleRate;
    if (seconds > LONGEST_CHUNK_SECONDS) {
      const most = `at most ${LONGEST_CHUNK_SECONDS} seconds fit into a write`;
      throw new WavepoolError('INPUT_TOO_LARGE', most);
    }
    if (this.#heldSamples + seconds * SAMPLE_RATE > this.#mostHeldSamples) {
      throw new WavepoolError('QUEUE_FULL', 'wait for earlier writes of this live stream');
    }
  }

  get #heldSamples(): number {
    return this.#audio.endSample - this.#firstNeededSample();
  }

  #firstNeededSample(): number {
    return this.#sink.firstNeededSample(this.#segmenter.keepFrom, this.#searchedTo);
  }

  /** Runs `work` after everything before it. What it throws ends the stream. */
  async #enqueue(work: () => Promise<void>): Promise<void> {
    this.#calls += 1;
    this.#watchIdleness();
    const done = this.#tail.then(() => {
      if (this.#failure) throw this.#failure;
      return work();
    });
    this.#tail = done.catch(() => undefined);
    try {
      await done;
      if (this.#failure) throw this.#failure;
    } catch (error) {
      await this.#end(toWavepoolError(error));
      throw this.#reason();
    } finally {
      this.#calls -= 1;
      this.#watchIdleness();
    }
  }

  async #search(endSample: number): Promise<void> {
    const startSample = this.#searchedTo;
    if (endSample > startSample) {
      const part = await this.#stream.push({ audio: this.#audio, startSample, endSample });
      this.#searchedTo = endSample;
      this.#take(part?.probabilities ?? []);
    }
    this.#audio.release(this.#firstNeededSample());
  }

  #take(probabilities: ArrayLike<number>): void {
    for (const segment of this.#segmenter.push(probabilities)) this.#tell(segment);
    const { speakingSince } = this.#segmenter;
    if (speakingSince !== undefined) this.#tellStart(speakingSince);
  }

  #tell(segment: SpeechSegment): void {
    this.#tellStart(segment.startSample);
    const index = this.#segments;
    this.#segments += 1;
    this.#onSpeech({ kind: 'ended', ...liveSegment(index, segment) });
    this.#sink.take(segment);
  }

  /** Reports the start of a segment once. */
  #tellStart(startSample: number): void {
    if (startSample <= this.#toldStart) return;
    this.#toldStart = startSample;
    this.#onSpeech({ kind: 'started', start: startSample / SAMPLE_RATE });
  }

  /** Waits until half of what may be held is free: enough for another chunk. */
  async #roomForMore(): Promise<void> {
    while (this.#heldSamples > this.#mostHeldSamples / 2 && this.#sink.pending > 0) {
      await this.#sink.oldestEnded();
      this.#audio.release(this.#firstNeededSample());
    }
  }

  /** The idle timeout counts while nothing is in work. */
  #watchIdleness(): void {
    this.#idleTimer?.cancel();
    this.#idleTimer = undefined;
    if (this.#calls > 0 || this.#closing || this.#finishing || this.#idleTimeoutMs === 0) return;
    const idle = `nothing came for ${this.#idleTimeoutMs} ms`;
    this.#idleTimer = this.#clock.setTimer(
      this.#idleTimeoutMs,
      () => void this.#end(new WavepoolError('STREAM_IDLE', idle)),
    );
  }

  #reason(): WavepoolError {
    return this.#failure ?? new WavepoolError('INTERNAL', 'a live stream ended without a reason');
  }

  /** The first reason counts. Resolves when everything has been given back. */
  #end(error: WavepoolError): Promise<void> {
    if (this.#closing) return this.#closing;
    this.#failure = error;
    this.#abort.abort(error);
    this.#closing = this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#idleTimer?.cancel();
    for (const each of this.#signals) each.removeEventListener('abort', this.#onAbort);
    try {
      await this.#stream.reset();
    } finally {
      // Only now is the session fresh for the next owner of the slot.
      this.#lease.release();
      await this.#sink.allEnded();
      await this.#audio.close();
      this.#tellClosed();
    }
  }
}

/** @throws {WavepoolError} INVALID_REQUEST */
function assertDetects(id: string, { task, windowSamples }: ModelInfo): void {
  if (task === 'vad' && windowSamples > 0) return;
  throw new WavepoolError('INVALID_REQUEST', `${id} does not detect speech`);
}

/** The form in which callers get a segment. */
export function liveSegment(index: number, { startSample, endSample }: SpeechSegment): LiveSegment {
  return { index, start: startSample / SAMPLE_RATE, end: endSample / SAMPLE_RATE };
}

/** One live stream that an HTTP server sends to this worker over Redis. */
import { toWavepoolError, type WavepoolError } from '../../core/errors.ts';
import type { LiveProgressEvent } from '../../core/live/live-api.ts';
import type { LiveFrame, LiveOpening, LiveWord } from '../../core/live/live-wire.ts';
import type { LiveChannel } from '../../queue/live/live-channel.ts';
import { LivePeer } from '../../queue/live/live-peer.ts';
import type { PcmSamples } from '../../runtime/engine.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import type { LiveStream, SpeechChange } from './live-stream.ts';
import { openLiveTranscription } from './live-transcription.ts';
import { readPcm } from './pcm-reader.ts';

/** The most audio in one write, whatever the sample rate. */
const WRITE_SECONDS = 1;

export interface RemoteStreamOptions {
  readonly id: string;
  readonly opening: LiveOpening;
  readonly channel: LiveChannel;
  readonly runtime: Runtime;
  readonly detector: ModelEntry;
}

export class RemoteStream {
  readonly #options: RemoteStreamOptions;
  readonly #peer: LivePeer;
  readonly #abort = new AbortController();
  /** Audio that has come and was not taken yet; the server sends no more than fits. */
  #waiting: Uint8Array[] = [];
  #hasEnded = false;
  #takenBytes = 0;
  #wake: () => void = () => undefined;
  #isOver = false;
  #last: LiveWord | undefined;
  /** Resolves, never rejects, when it has ended and its slot is free. */
  readonly closed: Promise<void>;
  #tellClosed: () => void = () => undefined;

  constructor(options: RemoteStreamOptions) {
    const { id, channel, opening } = options;
    this.#options = options;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
    this.#peer = new LivePeer({
      channel,
      stream: id,
      to: opening.replyTo,
      onGone: () => this.#end(undefined),
    });
  }

  /** Never rejects. */
  async run(): Promise<void> {
    let live: LiveStream | undefined;
    try {
      live = await this.#open();
      // A stream that fails while no audio comes would not be noticed by reading.
      void live.closed.then(() => this.#wake());
      this.#send({ type: 'opened' });
      for await (const samples of readPcm(this.#bytes(live), this.#options.opening.format)) {
        for (const piece of this.#pieces(samples)) await live.write(piece);
      }
      this.#end({ type: 'done', ...(await live.finish()) });
    } catch (error) {
      this.fail(toWavepoolError(error));
    } finally {
      await live?.cancel();
      this.#leave();
    }
  }

  /** Takes a frame of the server. */
  receive(frame: LiveFrame): void {
    if (!this.#peer.take(frame)) return;
    if (frame.kind === 'audio') this.#waiting.push(frame.payload);
    else if (frame.kind === 'end') this.#hasEnded = true;
    else if (frame.kind === 'cancel') this.#end(undefined);
    this.#wake();
  }

  /** Ends a stream that will not be run, and tells the server why. */
  refuse(error: WavepoolError): void {
    this.fail(error);
    this.#leave();
  }

  /** Ends the stream; the server is told why as soon as the slot is free. Idempotent. */
  fail({ code, detail }: WavepoolError): void {
    this.#end({ type: 'failed', code, detail });
  }

  /** @param last what the server is told; undefined when it knows already, or is gone */
  #end(last: LiveWord | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#last = last;
    this.#peer.stop();
    this.#abort.abort();
    this.#wake();
  }

  /** Frees the place before the server learns of the end. */
  #leave(): void {
    this.#tellClosed();
    if (this.#last === undefined) return;
    // A server that cannot be reached has gone.
    this.#peer.send('word', encode(this.#last)).catch(() => undefined);
  }

  #open(): Promise<LiveStream> {
    const { opening, runtime, detector } = this.#options;
    return openLiveTranscription({
      runtime,
      detector,
      recognizer: runtime.entry(opening.model),
      format: opening.format,
      options: opening.options,
      idleTimeoutMs: opening.idleTimeoutMs,
      signal: this.#abort.signal,
      onSpeech: (change) => this.#sendEvent(speechEvent(change)),
      onSegment: (segment) => this.#sendEvent({ type: 'live.segment', ...segment }),
    });
  }

  /** Yields what has come since the last time as one piece. The server may send as much again when it has been written. */
  async *#bytes(live: LiveStream): AsyncGenerator<Uint8Array> {
    let isClosed = false;
    void live.closed.then(() => {
      isClosed = true;
    });
    for (;;) {
      const come = this.#waiting;
      this.#waiting = [];
      if (come.length > 0) {
        const bytes = Buffer.concat(come);
        yield bytes;
        this.#takenBytes += bytes.length;
        this.#send({ type: 'taken', bytes: this.#takenBytes });
      } else if (this.#hasEnded || this.#isOver) {
        return;
      } else if (isClosed) {
        // A write to an ended stream throws the reason of its end.
        await live.write(new Int16Array());
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  *#pieces(samples: PcmSamples): Generator<PcmSamples> {
    const { sampleRate, channels } = this.#options.opening.format;
    const step = sampleRate * channels * WRITE_SECONDS;
    for (let at = 0; at < samples.length; at += step) yield samples.subarray(at, at + step);
  }

  #sendEvent(event: LiveProgressEvent): void {
    this.#send({ type: 'event', event });
  }

  #send(word: LiveWord): void {
    if (!this.#isOver) this.#peer.tell('word', encode(word));
  }
}

function speechEvent(change: SpeechChange): LiveProgressEvent {
  if (change.kind === 'started') return { type: 'live.speech-started', start: change.start };
  const { index, start, end } = change;
  return { type: 'live.speech-ended', index, start, end };
}

function encode(word: LiveWord): Buffer {
  return Buffer.from(JSON.stringify(word));
}

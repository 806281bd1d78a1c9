/** What both sides of a live stream do alike: number what they send, notice what is lost, and say that they are there. */
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import {
  LIVE_BEAT_MS,
  LIVE_SILENCE_MS,
  type LiveFrame,
  type LiveFrameKind,
} from '../../core/live/live-wire.ts';
import type { LiveChannel } from './live-channel.ts';

const NOTHING = new Uint8Array();

export interface LivePeerOptions {
  readonly channel: LiveChannel;
  readonly stream: string;
  /** The channel of the other side. */
  readonly to: string;
  /** Told once, and never after `stop`: the other side is gone, or what it said was lost. */
  readonly onGone: (error: WavepoolError) => void;
  /** Milliseconds of a clock that never goes back. @defaultValue performance.now */
  readonly now?: (() => number) | undefined;
}

export class LivePeer {
  readonly #options: LivePeerOptions;
  readonly #now: () => number;
  readonly #beats: NodeJS.Timeout;
  #sent = 0;
  #heard = 0;
  #heardAt: number;
  #isStopped = false;

  constructor(options: LivePeerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#heardAt = this.#now();
    this.#beats = setInterval(() => this.#beat(), LIVE_BEAT_MS).unref();
  }

  /** @throws {WavepoolError} WORKER_GONE, REDIS_UNAVAILABLE */
  send(kind: LiveFrameKind, payload: Uint8Array = NOTHING): Promise<void> {
    const { channel, stream, to } = this.#options;
    const number = this.#sent;
    this.#sent += 1;
    return channel.send(to, { kind, stream, number, payload });
  }

  /** As `send`, of what nobody waits for: that it failed is told to `onGone`. */
  tell(kind: LiveFrameKind, payload?: Uint8Array): void {
    this.send(kind, payload).catch((error: unknown) => this.fail(toWavepoolError(error)));
  }

  /** Whether the frame is the next one, and something is to be done about it. */
  take({ kind, number }: LiveFrame): boolean {
    if (this.#isStopped) return false;
    if (number !== this.#heard % 2 ** 32) {
      this.fail(new WavepoolError('REDIS_UNAVAILABLE', 'a message of a live stream was lost'));
      return false;
    }
    this.#heard += 1;
    this.#heardAt = this.#now();
    return kind !== 'beat';
  }

  fail(error: WavepoolError): void {
    if (this.#isStopped) return;
    this.stop();
    this.#options.onGone(error);
  }

  /** Idempotent. */
  stop(): void {
    this.#isStopped = true;
    clearInterval(this.#beats);
  }

  #beat(): void {
    const silentMs = this.#now() - this.#heardAt;
    if (silentMs > LIVE_SILENCE_MS) {
      const silence = `nothing was heard of the other end for ${Math.round(silentMs)} ms`;
      this.fail(new WavepoolError('WORKER_GONE', silence));
      return;
    }
    this.tell('beat');
  }
}

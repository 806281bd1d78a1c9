/**
 * Inputs of split jobs that are being decoded here. Parts come in the order of the audio, so an input that one part has
 * been read from is kept for the next: a worker decodes a file once, however many of its parts it takes.
 */
import { WavepoolError } from '../../core/errors.ts';
import type { PartData } from '../../core/job/part.ts';
import type { Engine } from '../../runtime/engine.ts';
import { type InputPlaces, type ResolvedInput, resolveInput } from '../../storage/inputs.ts';
import { type InputChannels, openChannels } from '../audio/input-channels.ts';

/** An input that was not used for this long is closed. */
const IDLE_MS = 30_000;
const MOST_IDLE = 8;

export interface PartInputsOptions {
  readonly engine: Engine;
  readonly ffmpeg: string;
  readonly places: InputPlaces;
}

/** An open input. Only its holder decodes it. */
export interface PartInput {
  readonly channels: InputChannels;
  readonly job: string;
  readonly input: ResolvedInput;
  /** Audio before this sample may have been freed. */
  keptFrom: number;
}

interface Idle {
  readonly open: PartInput;
  readonly timer: NodeJS.Timeout;
}

export class PartInputs {
  readonly #options: PartInputsOptions;
  #idle: Idle[] = [];
  #isClosed = false;

  constructor(options: PartInputsOptions) {
    this.#options = options;
  }

  /**
   * Opens the input of a part, or takes one that is open already. The caller must `release` or `discard` it.
   * @throws {WavepoolError} INPUT_CHANGED, or as `openInput`
   */
  async take(part: PartData, signal: AbortSignal): Promise<PartInput> {
    const first = part.segments[0]?.startSample ?? 0;
    const usable = this.#idle
      .filter(({ open: { job, keptFrom } }) => job === keyOf(part) && keptFrom <= first)
      .toSorted((a, b) => b.open.keptFrom - a.open.keptFrom)[0];
    if (usable === undefined) return this.#open(part, signal);
    this.#forget(usable);
    return usable.open;
  }

  /** @param keptFrom the next part of the job begins there, or later */
  release(open: PartInput, keptFrom: number): void {
    open.keptFrom = Math.max(open.keptFrom, keptFrom);
    for (const { reader } of open.channels.all) reader.audio.release(open.keptFrom);
    const idle: Idle = { open, timer: setTimeout(() => this.#end(idle), IDLE_MS).unref() };
    this.#idle.push(idle);
    const [oldest] = this.#idle;
    if (oldest !== undefined && (this.#isClosed || this.#idle.length > MOST_IDLE))
      this.#end(oldest);
  }

  async discard({ channels, input }: PartInput): Promise<void> {
    await channels.close();
    await input[Symbol.asyncDispose]();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const idle = this.#idle;
    this.#idle = [];
    for (const { timer } of idle) clearTimeout(timer);
    await Promise.all(idle.map(({ open }) => this.discard(open)));
  }

  async #open(part: PartData, signal: AbortSignal): Promise<PartInput> {
    const { engine, ffmpeg, places } = this.#options;
    const input = await resolveInput(part.input, places, signal);
    try {
      const { bytes, modifiedAtMs } = input;
      const isOther =
        bytes !== part.bytes ||
        (part.modifiedAtMs !== undefined && modifiedAtMs !== part.modifiedAtMs);
      if (isOther) throw new WavepoolError('INPUT_CHANGED', input.name);
      const options = { channels: part.channels, maxAudioSeconds: 0 };
      const channels = await openChannels(engine, input, ffmpeg, options);
      return { channels, job: keyOf(part), input, keptFrom: 0 };
    } catch (error) {
      await input[Symbol.asyncDispose]();
      throw error;
    }
  }

  #end(idle: Idle): void {
    this.#forget(idle);
    // An input that cannot be closed is freed at the end of the process.
    this.discard(idle.open).catch(() => undefined);
  }

  #forget(idle: Idle): void {
    clearTimeout(idle.timer);
    this.#idle = this.#idle.filter((each) => each !== idle);
  }
}

function keyOf({ jobId, model, input, bytes, modifiedAtMs }: PartData): string {
  return JSON.stringify([jobId, model, input, bytes, modifiedAtMs ?? null]);
}

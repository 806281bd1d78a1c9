/**
 * The channels of one input: the mix of all, or each by itself. Every channel has a reader of its own, which decodes the
 * whole input for it: a channel then is what a file with that channel alone would be, in every format.
 */
import { WavepoolError } from '../../core/errors.ts';
import type { TranscribeOptions } from '../../core/job/job.ts';
import type { Audio, AudioWarning, Engine, SourceInfo } from '../../runtime/engine.ts';
import { openWithFfmpeg } from './ffmpeg.ts';
import { type InputFile, type InputReader, limitDuration } from './input-reader.ts';

/** Each channel may be a child process, and holds audio of its own. */
const MOST_CHANNELS = 8;

/** One channel of an input, or the mix of all. */
export interface InputChannel {
  readonly reader: InputReader;
  /** Undefined for the mix, and for the only channel of an input. */
  readonly speaker: string | undefined;
}

export interface ChannelOptions extends Partial<Pick<TranscribeOptions, 'channels' | 'speakers'>> {
  /** An input with more fails with INPUT_TOO_LARGE; 0 = no limit. */
  readonly maxAudioSeconds: number;
}

/** An input that is being decoded. */
export class InputChannels {
  /** In the order of their numbers. */
  readonly all: readonly [InputChannel, ...InputChannel[]];
  readonly info: SourceInfo;
  readonly #ownWarnings: readonly AudioWarning[];

  constructor(
    all: readonly [InputChannel, ...InputChannel[]],
    ownWarnings: readonly AudioWarning[] = [],
  ) {
    this.all = all;
    this.info = all[0].reader.audio.info;
    this.#ownWarnings = ownWarnings;
  }

  /** One past the last sample that is decoded, of the channel that is furthest. */
  get endSample(): number {
    return Math.max(...this.all.map(({ reader }) => reader.audio.endSample));
  }

  /** Each warning once: channels of one file have the same faults. */
  get warnings(): readonly AudioWarning[] {
    const warnings = this.all.flatMap(({ reader }) => reader.warnings);
    const unique = new Map(warnings.map((each) => [`${each.code} ${each.message}`, each]));
    return [...unique.values(), ...this.#ownWarnings];
  }

  /** Frees the samples and ends children; idempotent. */
  async close(): Promise<void> {
    await Promise.all(this.all.map(({ reader }) => reader.close()));
  }
}

/**
 * Opens a file, or one channel of it: in this process where native code knows the format, otherwise through ffmpeg.
 * @throws {WavepoolError} INPUT_NOT_FOUND, INPUT_EMPTY, INPUT_UNDECODABLE, FFMPEG_MISSING
 */
export async function openInput(
  engine: Engine,
  file: InputFile,
  ffmpegCommand: string,
): Promise<InputReader> {
  const { path, rawFormat, channel } = file;
  if (rawFormat !== undefined) return openWithFfmpeg(engine, file, ffmpegCommand);
  try {
    return nativeReader(await engine.openAudio({ kind: 'file', path, channel }));
  } catch (error) {
    const unknownFormat = error instanceof WavepoolError && error.code === 'INPUT_UNDECODABLE';
    if (!unknownFormat) throw error;
    return openWithFfmpeg(engine, file, ffmpegCommand);
  }
}

function nativeReader(audio: Audio): InputReader {
  return {
    audio,
    get warnings() {
      return audio.warnings;
    },
    decodeUntil: (sample, signal) => audio.decodeUntil(sample, signal),
    close: () => audio.close(),
  };
}

/**
 * Opens the channels that a job wants.
 * @throws {WavepoolError} as `openInput`; INVALID_REQUEST for more channels than can be told apart; INPUT_CHANGED
 */
export async function openChannels(
  engine: Engine,
  file: InputFile,
  ffmpeg: string,
  { channels = 'mix', speakers = [], maxAudioSeconds }: ChannelOptions,
): Promise<InputChannels> {
  const open = async (channel?: number) =>
    limitDuration(await openInput(engine, { ...file, channel }, ffmpeg), maxAudioSeconds);
  if (channels === 'mix') {
    return new InputChannels([{ reader: await open(), speaker: undefined }]);
  }
  const first = await open(0);
  const readers = [first];
  try {
    const count = first.audio.info.channels;
    if (count === 1)
      return new InputChannels([{ reader: first, speaker: undefined }], [ONE_CHANNEL]);
    assertSeparable(file, count);
    for (let channel = 1; channel < count; channel += 1) {
      const reader = await open(channel);
      readers.push(reader);
      if (reader.audio.info.channels !== count) throw new WavepoolError('INPUT_CHANGED', file.path);
    }
    const named = (channel: number) => speakers[channel] ?? `channel ${channel + 1}`;
    const [, ...others] = readers;
    return new InputChannels([
      { reader: first, speaker: named(0) },
      ...others.map((reader, at) => ({ reader, speaker: named(at + 1) })),
    ]);
  } catch (error) {
    await Promise.all(readers.map((reader) => reader.close()));
    throw error;
  }
}

const ONE_CHANNEL: AudioWarning = {
  code: 'ONE_CHANNEL',
  message: 'the input has one channel: there are none to tell apart',
};

function assertSeparable({ path }: InputFile, count: number): void {
  if (count <= MOST_CHANNELS) return;
  throw new WavepoolError(
    'INVALID_REQUEST',
    `${path} has ${count} channels; at most ${MOST_CHANNELS} are transcribed one by one`,
  );
}

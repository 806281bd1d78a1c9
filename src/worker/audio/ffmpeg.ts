/**
 * Inputs that are not WAV, MP3 or FLAC: an ffmpeg child reads the local file and writes WAV into a pipe whose other end
 * native code reads. No shell, no network protocols, and only container formats that hold their own data: playlists
 * and scripts that make ffmpeg open further files are refused.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { WavepoolError } from '../../core/errors.ts';
import type { Audio, AudioWarning, Engine } from '../../runtime/engine.ts';
import type { InputFile, InputReader } from './input-reader.ts';

/**
 * Demuxers by ffmpeg's names. Those that open further files are left out: hls, dash, concat, image2, lavfi and the like.
 * So are mulaw and alaw, which guess the sample rate from a file's extension: such files have to be declared.
 */
const CONTAINERS = [
  'aac,ac3,eac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dts,flac,flv,gsm,iff,m4v,matroska,webm',
  'mov,mp4,m4a,3gp,3g2,mj2,mp3,mpc,mpc8,mpeg,mpegts,mxf,nut,ogg,oma,qcp,rm,rso,sox,spx,tak,tta',
  'voc,w64,wav,wsd,wv,xwma,dsf,loas,latm,sln,g722,g729',
].join(',');

/** Without a byte from ffmpeg for this long, the input counts as undecodable. */
const STALL_TIMEOUT_MS = 60_000;
const STDERR_LIMIT = 4_096;

/** Lets ffmpeg find out the format among the containers, or names the format that was declared. */
function demuxerArguments({ rawFormat }: InputFile): string[] {
  if (rawFormat === undefined) return ['-format_whitelist', CONTAINERS];
  const { codec, sampleRate, channels } = rawFormat;
  return ['-f', codec, '-ar', String(sampleRate), '-ac', String(channels)];
}

function ffmpegArguments(file: InputFile): string[] {
  const { path } = file;
  return [
    ...['-nostdin', '-hide_banner', '-loglevel', 'error', '-threads', '1'],
    ...['-protocol_whitelist', 'file,pipe', ...demuxerArguments(file)],
    ...['-i', `file:${path}`, '-map', '0:a:0', '-vn', '-sn', '-dn', '-map_metadata', '-1'],
    ...['-c:a', 'pcm_f32le', '-f', 'wav', 'pipe:1'],
  ];
}

/** Starts the child with the write end of the pipe as its standard output. */
async function spawnFfmpeg(
  command: string,
  file: InputFile,
  writeDescriptor: number,
): Promise<ChildProcess> {
  const { path } = file;
  try {
    const child = spawn(command, ffmpegArguments(file), {
      stdio: ['ignore', writeDescriptor, 'pipe'],
      // The environment of this process is kept from ffmpeg; it only gets the usual search paths.
      env: { PATH: '/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin', LC_ALL: 'C' },
    });
    await once(child, 'spawn');
    return child;
  } catch (cause) {
    const missing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT';
    throw missing
      ? new WavepoolError('FFMPEG_MISSING', `${path} (install ffmpeg, then run again)`, { cause })
      : new WavepoolError('INTERNAL', `ffmpeg could not be started for ${path}`, { cause });
  } finally {
    closeSync(writeDescriptor);
  }
}

/** Opens the file through ffmpeg.
 *  @throws {WavepoolError} FFMPEG_MISSING, INPUT_UNDECODABLE */
export async function openWithFfmpeg(
  engine: Engine,
  file: InputFile,
  command: string,
): Promise<InputReader> {
  const { path, channel } = file;
  const { readDescriptor, writeDescriptor } = engine.createPipe();
  let child: ChildProcess;
  try {
    child = await spawnFfmpeg(command, file, writeDescriptor);
  } catch (error) {
    closeSync(readDescriptor);
    throw error;
  }
  const report = new ChildReport(child);
  try {
    const stallTimeoutMs = STALL_TIMEOUT_MS;
    const audio = await engine.openAudio({ kind: 'pipe', readDescriptor, stallTimeoutMs, channel });
    return new FfmpegReader(audio, report, path);
  } catch (error) {
    report.kill();
    throw await explain(error, report, path);
  }
}

/** The error output of the child, and how it ended. */
class ChildReport {
  readonly #child: ChildProcess;
  readonly exited: Promise<number | null>;
  #stderr = '';

  constructor(child: ChildProcess) {
    this.#child = child;
    this.exited = once(child, 'close').then(([code]: (number | null)[]) => code ?? null);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_LIMIT);
    });
  }

  /** The last line of its error output, without ffmpeg's prefixes. */
  get complaint(): string {
    if (this.#stderr.includes('matches no streams')) return 'it has no audio stream';
    const lines = this.#stderr.split('\n').filter((line) => line.trim() !== '');
    return (
      lines
        .at(-1)
        ?.replace(/^\[[^\]]*\]\s*/, '')
        .replace(/^file:[^:]*: /, '') ?? ''
    );
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

async function explain(error: unknown, report: ChildReport, path: string): Promise<unknown> {
  const undecodable = error instanceof WavepoolError && error.code === 'INPUT_UNDECODABLE';
  if (!undecodable) return error;
  await report.exited;
  const reason = report.complaint || error.detail;
  return new WavepoolError('INPUT_UNDECODABLE', `${path}: ${reason}`, { cause: error });
}

class FfmpegReader implements InputReader {
  readonly audio: Audio;
  readonly #report: ChildReport;
  readonly #path: string;
  #exitWarning: AudioWarning | undefined;

  constructor(audio: Audio, report: ChildReport, path: string) {
    this.audio = audio;
    this.#report = report;
    this.#path = path;
  }

  get warnings(): readonly AudioWarning[] {
    return this.#exitWarning ? [...this.audio.warnings, this.#exitWarning] : this.audio.warnings;
  }

  async decodeUntil(sample: number, signal: AbortSignal): Promise<void> {
    try {
      await this.audio.decodeUntil(sample, signal);
    } catch (error) {
      throw await explain(error, this.#report, this.#path);
    }
    if (!this.audio.ended || this.#exitWarning) return;
    const code = await this.#report.exited;
    if (code !== 0) {
      const message = `ffmpeg stopped early: ${this.#report.complaint}`;
      this.#exitWarning = { code: 'DECODE_ERRORS_SKIPPED', message };
    }
  }

  async close(): Promise<void> {
    this.#report.kill();
    await this.audio.close();
  }
}

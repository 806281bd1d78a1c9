/** `wavepool live`: sound that is being recorded goes to a server, and what is said comes back as it is recognized. */
import { createReadStream, fstatSync, open } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { WavepoolClient } from '../../client/wavepool-client.ts';
import { WavepoolError } from '../../core/errors.ts';
import { LiveFormat } from '../../core/live/live.ts';
import type { LiveEvent } from '../../core/live/live-api.ts';
import { type CliContext, EXIT, printLine } from '../terminal/context.ts';
import { watchInterrupts } from '../terminal/interrupts.ts';
import { printable } from '../terminal/text.ts';

interface LiveCommandOptions {
  readonly server: string;
  readonly keyFile?: string;
  readonly model?: string;
  readonly rate: number;
  readonly channels: number;
  readonly sampleFormat: LiveFormat['sampleFormat'];
  readonly language?: string;
  readonly json?: true;
}

const HELP = `
The sound is PCM without a header. Each segment is a line on stdout as soon as it is recognized. Ctrl-C ends the sound: what was
said before is still recognized.

Example:
  parec --rate=16000 --channels=1 --format=s16le | wavepool live`;

export function addLiveCommand(program: Command, context: CliContext): void {
  const { sampleRate, channels, sampleFormat } = LiveFormat.shape;
  program
    .command('live')
    .description('transcribe sound while it is being recorded, through a server')
    .argument('[file]', 'PCM; - is standard input', '-')
    .option('--server <url>', 'of wavepool serve', 'http://127.0.0.1:8080')
    .option('--key-file <file>', 'holds the API key and nothing else')
    .option('--model <id>', "what recognizes; the server's when left out")
    .option('--rate <hz>', 'samples per second', wholeOf(sampleRate), 16_000)
    .option('--channels <n>', 'interleaved; they are mixed', wholeOf(channels), 1)
    .addOption(
      new Option('--sample-format <name>', 'how a sample is written')
        .choices(sampleFormat.unwrap().options)
        .default('s16le'),
    )
    .option('--language <tag>', 'what is spoken; the model finds out when left out')
    .option('--json', 'print every event as a line of JSON')
    .addHelpText('after', HELP)
    .action((file: string, options: LiveCommandOptions) => live(file, options, context));
}

async function live(file: string, options: LiveCommandOptions, context: CliContext): Promise<void> {
  const { server: baseUrl, keyFile, model, rate, channels, sampleFormat, language } = options;
  const apiKey = keyFile === undefined ? undefined : await keyIn(keyFile);
  const client = new WavepoolClient({ baseUrl, apiKey });
  const sound = file === '-' ? process.stdin : await openSound(file);
  using watch = watchInterrupts(context, {
    onFirst: () => printLine(context.stderr, 'finishing, press again to stop now'),
  });
  const events = client.live(untilInterrupted(sound, file, watch.signal), {
    ...{ model, sampleRate: rate, channels, sampleFormat },
    ...(language === undefined ? {} : { options: { language } }),
  });
  try {
    for await (const event of events) tell(event, options, context);
  } finally {
    sound.destroy();
  }
  context.exitCode = EXIT.done;
}

/** @throws {WavepoolError} INPUT_NOT_FOUND */
async function openSound(file: string): Promise<Readable> {
  // A named pipe opens when there is somebody who writes.
  const fd = await promisify(open)(file, 'r').catch((error: unknown) => {
    throw notReadable(file, error);
  });
  // Nothing ends the read of a file that waits for more; that of a socket ends with it.
  return fstatSync(fd).isFIFO()
    ? new Socket({ fd, readable: true, writable: false })
    : createReadStream(file, { fd });
}

function notReadable(file: string, cause: unknown): WavepoolError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new WavepoolError('INPUT_NOT_FOUND', `${file} (${why})`, { cause });
}

/** Ends like the sound itself, so that the body gets its last chunk. */
async function* untilInterrupted(
  sound: Readable,
  file: string,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void> {
  const stop = (): void => {
    sound.destroy();
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    if (!signal.aborted) yield* sound;
  } catch (error) {
    if (signal.aborted) return;
    throw notReadable(file, error);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function tell(event: LiveEvent, { json }: LiveCommandOptions, context: CliContext): void {
  if (json === true) printLine(context.stdout, JSON.stringify(event));
  else if (event.type === 'live.segment') printLine(context.stdout, printable(event.text));
  else if (event.type === 'live.opened') printLine(context.stderr, `${event.model} is listening`);
}

/** @throws {WavepoolError} INPUT_NOT_FOUND */
async function keyIn(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw notReadable(file, error);
  });
  return text.trim();
}

interface Checked {
  safeParse(value: unknown): { readonly data?: number | undefined };
}

function wholeOf(schema: Checked): (text: string) => number {
  return (text) => {
    const value = schema.safeParse(Number(text)).data;
    if (value !== undefined) return value;
    throw new InvalidArgumentError('See docs/api.md for what is taken.');
  };
}

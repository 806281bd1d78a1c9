/** Folders of one test file or test: inputs, outputs and a data directory whose Redis ends with it. */
import { watch } from 'node:fs';
import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../../src/core/config.ts';
import { processState } from '../../src/core/files/process-identity.ts';
import { type InputRecord, parseInputRecord } from '../../src/core/files/run-manifest.ts';
import { parseServerRecord } from '../../src/core/files/server-record.ts';
import { Transcript } from '../../src/core/results/job-result.ts';
import { signalProcess } from './process-table.ts';
import { temporaryFolder } from './redis.ts';
import { type ProcessEnd, type StartOptions, WavepoolProcess } from './wavepool-process.ts';

export class Workplace implements AsyncDisposable {
  readonly root: string;
  readonly inputs: string;
  readonly out: string;
  readonly dataDir: string;
  readonly #remove: () => Promise<void>;
  readonly #commands: WavepoolProcess[] = [];

  private constructor(root: string, remove: () => Promise<void>) {
    this.root = root;
    this.inputs = join(root, 'in');
    this.out = join(root, 'out');
    this.dataDir = join(root, 'data');
    this.#remove = remove;
  }

  static async create(): Promise<Workplace> {
    const folder = await temporaryFolder();
    const place = new Workplace(folder.path, async () => folder[Symbol.asyncDispose]());
    await mkdir(place.inputs);
    return place;
  }

  /** A command with this data directory and the machine's models. */
  command(
    name: 'run' | 'serve' | 'watch' | 'worker',
    args: readonly string[],
    options?: StartOptions,
  ): WavepoolProcess {
    const { modelsDir } = readConfig();
    const places = ['--data-dir', this.dataDir, '--models-dir', modelsDir];
    const command = new WavepoolProcess([name, ...places, ...args], options);
    this.#commands.push(command);
    return command;
  }

  start(args: readonly string[], options?: StartOptions): WavepoolProcess {
    return this.command('run', args, options);
  }

  run(args: readonly string[], options?: StartOptions): Promise<ProcessEnd> {
    return this.start(args, options).ended;
  }

  /** The inputs into the output directory, with a summary on stdout. */
  transcribe(formats: string, options?: StartOptions): Promise<ProcessEnd> {
    return this.run([this.inputs, '--out', this.out, '--format', formats, '--json'], options);
  }

  /** Every file in the output directory but the state of the run, sorted. */
  async outputs(out = this.out): Promise<string[]> {
    const entries = await readdir(out, { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(out.length + 1))
      .filter((file) => !file.startsWith('.wavepool/'))
      .sort();
  }

  read(file: string): Promise<string> {
    return readFile(join(this.out, file), 'utf8');
  }

  async transcript(file: string): Promise<Transcript> {
    return Transcript.parse(JSON.parse(await this.read(file)));
  }

  /** Content and time of change of every output, by name. */
  async snapshot(): Promise<Map<string, { readonly text: string; readonly mtimeMs: number }>> {
    const files = await this.outputs();
    const entries = files.map(async (file) => {
      const { mtimeMs } = await stat(join(this.out, file));
      return [file, { text: await this.read(file), mtimeMs }] as const;
    });
    return new Map(await Promise.all(entries));
  }

  /** The lines of the run's manifest, oldest first. */
  async manifest(): Promise<InputRecord[]> {
    const text = await readFile(join(this.out, '.wavepool/inputs.jsonl'), 'utf8');
    return text.split('\n').flatMap((line) => parseInputRecord(line) ?? []);
  }

  /** Resolves when the output directory holds so many files. */
  async outputCount(count: number, out = this.out): Promise<void> {
    await mkdir(out, { recursive: true });
    await new Promise<void>((resolve, reject) => {
      const look = (): void => {
        this.outputs(out).then((files) => {
          if (files.length < count) return;
          watcher.close();
          resolve();
        }, reject);
      };
      const watcher = watch(out, look);
      watcher.on('error', reject);
      look();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A test that failed may leave commands, and one that killed a command a server that nobody stops.
    for (const command of this.#commands) command.kill('SIGKILL');
    await Promise.all(this.#commands.map((command) => command.ended));
    const server = await this.redisPid();
    if (server !== undefined) signalProcess(server, 'SIGKILL');
    await this.#remove();
  }

  /** The process id of the data directory's private Redis, when it runs. */
  async redisPid(): Promise<number | undefined> {
    const text = await readFile(join(this.dataDir, 'redis/server.json'), 'utf8').catch(() => '');
    const record = parseServerRecord(text);
    if (record === undefined || (await processState(record.server)) !== 'alive') return undefined;
    return record.server.pid;
  }
}

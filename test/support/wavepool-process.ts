/** The built command line in a process of its own, as people run it: embedded Redis, real workers, real weights. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { RunSummary } from '../../src/bulk/summary.ts';

export const PROGRAM = resolve(import.meta.dirname, '../../dist/src/cli/main.js');

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface StartOptions {
  readonly cwd?: string;
  /** Added to the environment of the tests. */
  readonly env?: Readonly<Record<string, string>>;
}

export class WavepoolProcess {
  readonly pid: number;
  /**
   * Resolves when the command and everything that writes to its standard error has ended: its workers do, the embedded
   * Redis does not.
   */
  readonly ended: Promise<ProcessEnd>;
  readonly #child: ChildProcess;
  #stdout = '';
  #stderr = '';

  constructor(args: readonly string[], { cwd, env }: StartOptions = {}) {
    if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: run \`npm run build\``);
    this.#child = spawn(process.execPath, [PROGRAM, ...args], {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.pid = this.#child.pid ?? -1;
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    this.ended = new Promise((settle, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (code, signal) => {
        settle({ code, signal, stdout: this.#stdout, stderr: this.#stderr });
      });
    });
  }

  /** Resolves when the command has written this to standard error. */
  async said(words: string): Promise<void> {
    while (!this.#stderr.includes(words)) {
      const { stderr } = this.#child;
      if (stderr === null) return;
      await once(stderr, 'data');
    }
  }

  /** The first line of standard output; what there is of it when the output ends before. */
  async firstLine(): Promise<string> {
    const { stdout } = this.#child;
    while (stdout?.readable && !this.#stdout.includes('\n')) await once(stdout, 'data');
    return this.#stdout.split('\n')[0] ?? '';
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** What `event` gives; rejects when the command ends before. */
  async before<T>(event: Promise<T>): Promise<T> {
    const early = this.ended.then(({ code, stderr }) => {
      throw new Error(`the command ended too early, with ${code}: ${stderr}`);
    });
    return Promise.race([event, early]);
  }
}

export function runWavepool(args: readonly string[], options?: StartOptions): Promise<ProcessEnd> {
  return new WavepoolProcess(args, options).ended;
}

/** What `run --json` printed. */
export function summaryOf({ code, stdout, stderr }: ProcessEnd): RunSummary {
  if (stdout === '') throw new Error(`no summary, exit code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

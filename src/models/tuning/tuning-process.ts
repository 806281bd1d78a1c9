/** A layout in real processes: all are ready before any is measured, and they are measured together. */
import { type ChildProcess, fork } from 'node:child_process';
import { isErrorCode, WavepoolError } from '../../core/errors.ts';
import { TuningAnswer, type TuningRequest } from '../../core/evidence/tuning.ts';
import { packageFolder } from '../../core/package-folder.ts';
import type { OpenLayoutFor } from './tune.ts';

const SCRIPT = packageFolder('dist', 'workers', 'tuning-worker.js');
/** The time that one measurement takes. It is long enough for a few batches. */
const DURATION_MS = 700;

export interface TuningProcessOptions {
  /** The weights. */
  readonly path: string;
  readonly addonPath: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

export function tuningProcesses(options: TuningProcessOptions): OpenLayoutFor {
  const { path, addonPath, signal } = options;
  return async ({ workers, slots, threads }, maxBatch) => {
    signal?.throwIfAborted();
    const processes = Array.from({ length: workers }, () => new TuningProcess());
    const close = async (): Promise<void> => {
      await Promise.all(processes.map((each) => each.end()));
    };
    const stop = (): void => void close();
    signal?.addEventListener('abort', stop, { once: true });
    const askAll = async (request: TuningRequest) => {
      try {
        return await Promise.all(processes.map((each) => each.ask(request)));
      } catch (error) {
        signal?.throwIfAborted();
        throw error;
      }
    };
    const ready = {
      measure: async (batch: number): Promise<number> => {
        const answers = await askAll({ type: 'measure', batch, durationMs: DURATION_MS });
        return answers.reduce((sum, answer) => sum + speedOf(answer), 0);
      },
      [Symbol.asyncDispose]: async () => {
        signal?.removeEventListener('abort', stop);
        await close();
      },
    };
    try {
      await askAll({ type: 'open', path, addonPath, slots, threads, maxBatch });
      return ready;
    } catch (error) {
      await ready[Symbol.asyncDispose]();
      throw error;
    }
  };
}

function speedOf(answer: TuningAnswer): number {
  return answer.type === 'measured' ? answer.audioSeconds / answer.wallSeconds : 0;
}

class TuningProcess {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;

  constructor() {
    this.#child = fork(SCRIPT, [], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.#exited = new Promise((resolve) => {
      this.#child.once('exit', () => resolve());
      this.#child.once('error', () => resolve());
    });
  }

  /** One question at a time. @throws {WavepoolError} what it fails with, WORKER_CRASHED */
  async ask(request: TuningRequest): Promise<TuningAnswer> {
    const answered = new Promise<TuningAnswer>((resolve) => {
      this.#child.once('message', (raw) => resolve(TuningAnswer.parse(raw)));
      this.#child.send(request, () => undefined);
    });
    const answer = await Promise.race([answered, this.#exited]);
    if (answer === undefined) throw new WavepoolError('WORKER_CRASHED', 'while it was measured');
    if (answer.type !== 'failed') return answer;
    throw new WavepoolError(isErrorCode(answer.code) ? answer.code : 'INTERNAL', answer.detail);
  }

  async end(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }
}

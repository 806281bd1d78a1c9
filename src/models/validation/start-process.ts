/** Runs one start, or a look at the model, in a fresh process. */
import { type ChildProcess, fork } from 'node:child_process';
import { isErrorCode, WavepoolError } from '../../core/errors.ts';
import type { StartPhase } from '../../core/evidence/evidence.ts';
import type {
  ModelProbe,
  ProbeRequest,
  StartEnd,
  StartPlan,
  ValidationMessage,
  ValidationRequest,
} from '../../core/evidence/validation-ipc.ts';
import { parseValidationMessage } from '../../core/evidence/validation-ipc.ts';
import { packageFolder } from '../../core/package-folder.ts';

const WORKER_SCRIPT = packageFolder('dist', 'workers', 'validation-worker.js');
/** A wave that takes longer hangs. */
const SILENCE_MS = 600_000;

export interface StartOptions {
  readonly signal?: AbortSignal | undefined;
  /** The start stands at the beginning of this phase, and of this wave of it. */
  readonly onPhase?: ((phase: StartPhase, wave: number) => void) | undefined;
}

/** Runs starts. `StartProcess` does it in fresh processes. */
export interface ValidationWorker {
  /** @throws {WavepoolError} why the model cannot be looked at, CANCELLED */
  probe(request: ProbeRequest, options?: StartOptions): Promise<ModelProbe>;
  /** Resolves in whatever way the start ended. @throws {WavepoolError} CANCELLED only */
  start(plan: StartPlan, options?: StartOptions): Promise<StartEnd>;
}

export interface StartProcessOptions {
  /** @defaultValue workers/validation-worker.js beside this package's code */
  readonly script?: string | undefined;
  readonly args?: readonly string[] | undefined;
  /** @defaultValue 10 minutes */
  readonly silenceMs?: number | undefined;
}

type Answer = Exclude<ValidationMessage, { type: 'phase' }>;
type End =
  | { readonly kind: 'answer'; readonly answer: Answer }
  | { readonly kind: 'died'; readonly how: string; readonly outOfMemory: boolean }
  | { readonly kind: 'silent' };

export class StartProcess implements ValidationWorker {
  readonly #script: string;
  readonly #args: readonly string[];
  readonly #silenceMs: number;

  constructor({
    script = WORKER_SCRIPT,
    args = [],
    silenceMs = SILENCE_MS,
  }: StartProcessOptions = {}) {
    this.#script = script;
    this.#args = args;
    this.#silenceMs = silenceMs;
  }

  async probe(request: ProbeRequest, options: StartOptions = {}): Promise<ModelProbe> {
    const end = await this.#run({ type: 'probe', request }, options);
    if (end.kind === 'answer' && end.answer.type === 'probed') return end.answer.probe;
    if (end.kind === 'answer' && end.answer.type === 'failed') {
      const { code, detail } = end.answer;
      throw new WavepoolError(isErrorCode(code) ? code : 'INTERNAL', detail);
    }
    throw new WavepoolError('WORKER_CRASHED', `while looking at the model: ${describe(end)}`);
  }

  async start(plan: StartPlan, options: StartOptions = {}): Promise<StartEnd> {
    const startedAt = new Date().toISOString();
    let at: { phase: StartPhase; wave: number } = { phase: 'idle', wave: 0 };
    const onPhase = (phase: StartPhase, wave: number): void => {
      at = { phase, wave };
      options.onPhase?.(phase, wave);
    };
    const end = await this.#run({ type: 'start', plan }, { ...options, onPhase });
    if (end.kind === 'answer' && end.answer.type === 'report') {
      return { kind: 'finished', report: end.answer.report };
    }
    return { kind: 'broken', startedAt, ...at, status: statusOf(end), reason: describe(end) };
  }

  async #run(request: ValidationRequest, { signal, onPhase }: StartOptions): Promise<End> {
    if (signal?.aborted) throw new WavepoolError('CANCELLED', 'the validation was stopped');
    const child = fork(this.#script, [...this.#args], {
      execArgv: ['--expose-gc'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const kill = (): void => void child.kill('SIGKILL');
    const exited = exitOf(child);
    signal?.addEventListener('abort', kill, { once: true });
    try {
      const end = await Promise.race([this.#answer(child, request, onPhase), exited]);
      if (signal?.aborted) throw new WavepoolError('CANCELLED', 'the validation was stopped');
      return end;
    } finally {
      signal?.removeEventListener('abort', kill);
      kill();
      await exited;
    }
  }

  /** The answer, or that none came: each message of progress begins the wait anew. */
  #answer(
    child: ChildProcess,
    request: ValidationRequest,
    onPhase: StartOptions['onPhase'],
  ): Promise<End> {
    return new Promise((resolve) => {
      const silent = (): void => resolve({ kind: 'silent' });
      let timer = setTimeout(silent, this.#silenceMs);
      child.once('exit', () => clearTimeout(timer));
      child.on('message', (raw) => {
        const message = parseValidationMessage(raw);
        if (message === undefined) return;
        clearTimeout(timer);
        if (message.type !== 'phase') {
          resolve({ kind: 'answer', answer: message });
          return;
        }
        timer = setTimeout(silent, this.#silenceMs);
        onPhase?.(message.phase, message.wave);
      });
      child.send(request, () => undefined);
    });
  }
}

function exitOf(child: ChildProcess): Promise<End> {
  return new Promise((resolve) => {
    child.once('error', ({ message }) => {
      resolve({ kind: 'died', how: message, outOfMemory: false });
    });
    child.once('exit', (code, signal) => {
      const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
      // Nobody but the kernel, short of memory, kills a start in its midst.
      resolve({ kind: 'died', how, outOfMemory: signal === 'SIGKILL' });
    });
  });
}

function statusOf(end: End): 'FAIL' | 'BLOCKED' | 'UNSUPPORTED' {
  if (end.kind === 'died') return end.outOfMemory ? 'BLOCKED' : 'FAIL';
  if (end.kind !== 'answer' || end.answer.type !== 'failed') return 'FAIL';
  if (end.answer.code === 'INSUFFICIENT_MEMORY') return 'BLOCKED';
  return end.answer.code === 'SLOTS_UNSUPPORTED' ? 'UNSUPPORTED' : 'FAIL';
}

function describe(end: End): string {
  switch (end.kind) {
    case 'silent':
      return 'the worker hung';
    case 'died':
      return end.outOfMemory
        ? 'the worker was killed, as for want of memory (SIGKILL)'
        : `the worker crashed (${end.how})`;
    case 'answer':
      return end.answer.type === 'failed'
        ? `${end.answer.code}: ${end.answer.detail}`
        : `an unexpected answer: ${end.answer.type}`;
    default:
      return end satisfies never;
  }
}

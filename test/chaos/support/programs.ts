/** The programs that scenarios run in processes of their own. */
import { join } from 'node:path';
import { compileProgram } from '../../support/compile.ts';

export interface ChaosPrograms {
  /** The worker process over the fake families, with faults on demand: see `faulty-worker.ts`. */
  readonly worker: string;
  /** A supervisor of such workers: see `supervisor-program.ts`. */
  readonly supervisor: string;
}

/** Compiles them; dispose of them when the last scenario has ended. */
export async function buildPrograms(): Promise<ChaosPrograms & AsyncDisposable> {
  const worker = await compileProgram(join(import.meta.dirname, 'faulty-worker.ts'));
  const supervisor = await compileProgram(join(import.meta.dirname, 'supervisor-program.ts'));
  return {
    worker: worker.path,
    supervisor: supervisor.path,
    [Symbol.asyncDispose]: async () => {
      await worker[Symbol.asyncDispose]();
      await supervisor[Symbol.asyncDispose]();
    },
  };
}

/** Compiles a TypeScript program so that a test can run it in a process of its own. */
import { mkdir, rm } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import ts from 'typescript';

const ROOT = resolve(import.meta.dirname, '../..');

export interface CompiledProgram extends AsyncDisposable {
  /** For `fork()`. */
  readonly path: string;
}

/** The output lies inside the repository, where `node_modules` is found. Types are checked by `tsc`, not here. */
export async function compileProgram(source: string): Promise<CompiledProgram> {
  const outDir = join(ROOT, 'build', 'test-programs', `${process.pid}-${performance.now()}`);
  await mkdir(outDir, { recursive: true });
  const program = ts.createProgram([source], {
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    rewriteRelativeImportExtensions: true,
    noCheck: true,
    rootDir: ROOT,
    outDir,
  });
  program.emit();
  return {
    path: join(outDir, relative(ROOT, source).replace(/\.ts$/, '.js')),
    [Symbol.asyncDispose]: () => rm(outDir, { recursive: true, force: true }),
  };
}

/** Compiles a TypeScript program so that a test can run it in a process of its own. */
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';

const ROOT = resolve(import.meta.dirname, '../..');

export interface CompiledProgram extends AsyncDisposable {
  /** For `fork()`. */
  readonly path: string;
}

const OPTIONS: ts.CompilerOptions = {
  module: ts.ModuleKind.ESNext,
  target: ts.ScriptTarget.ES2022,
  verbatimModuleSyntax: true,
  rewriteRelativeImportExtensions: true,
};

/** A folder that a program reads beside itself. */
const FOLDER = /new URL\('(\.\/[^']+\/)', import\.meta\.url\)/g;

/** Compiles a file and the files of this repository that it imports; types are not looked at. */
async function compileInto(outDir: string, source: string, done: Set<string>): Promise<void> {
  if (done.has(source)) return;
  done.add(source);
  const text = await readFile(source, 'utf8');
  const target = join(outDir, relative(ROOT, source).replace(/\.ts$/, '.js'));
  await mkdir(dirname(target), { recursive: true });
  await writeFile(target, ts.transpileModule(text, { compilerOptions: OPTIONS }).outputText);
  for (const [, folder = ''] of text.matchAll(FOLDER)) {
    await cp(join(dirname(source), folder), join(dirname(target), folder), { recursive: true });
  }
  for (const { fileName } of ts.preProcessFile(text).importedFiles) {
    if (!fileName.startsWith('.')) continue;
    await compileInto(outDir, resolve(dirname(source), fileName), done);
  }
}

/** The output lies inside the repository, where `node_modules` is found. */
export async function compileProgram(source: string): Promise<CompiledProgram> {
  const outDir = join(ROOT, 'build', 'test-programs', `${process.pid}-${performance.now()}`);
  await compileInto(outDir, source, new Set());
  return {
    path: join(outDir, relative(ROOT, source).replace(/\.ts$/, '.js')),
    [Symbol.asyncDispose]: () => rm(outDir, { recursive: true, force: true }),
  };
}

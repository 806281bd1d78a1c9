/** Runs the project's tests where its sources are: in a checkout, after `npm run setup`. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import { memberOf } from '../../core/lenient-parse.ts';
import { packageFolder } from '../../core/package-folder.ts';
import type { Sanitizer, TestCount, TestRunner } from './framework-gate.ts';

const FOLDERS: Record<Sanitizer, string> = { 'address,undefined': 'asan', thread: 'tsan' };
/** Whole readings take ten minutes under ThreadSanitizer and share no more than the sessions and the pool do. */
const LEFT_OUT: Partial<Record<Sanitizer, string>> = { thread: 'MoonshineTiny' };
const SANITIZER_SETTINGS = {
  ASAN_OPTIONS: 'detect_leaks=1',
  UBSAN_OPTIONS: 'halt_on_error=1:print_stacktrace=1',
  TSAN_OPTIONS: 'halt_on_error=1',
};

export interface CheckoutTestsOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
  /** @defaultValue the folder of this package */
  readonly root?: string | undefined;
}

export class CheckoutTests implements TestRunner {
  readonly obstacle: string | undefined;
  readonly #root: string;
  readonly #options: CheckoutTestsOptions;
  readonly #vitestCounts = new Map<string, TestCount>();

  constructor(options: CheckoutTestsOptions) {
    this.#options = options;
    this.#root = options.root ?? packageFolder();
    const needed = ['native/tests', 'test', 'node_modules/vitest'];
    const missing = needed.filter((name) => !existsSync(path.join(this.#root, name)));
    this.obstacle =
      missing.length === 0
        ? undefined
        : `the tests of Wavepool are not here (${missing.join(', ')} missing in ${this.#root}); run it in a checkout`;
  }

  async build(): Promise<string> {
    await this.#buildNative('--tests');
    const source = await readFile(path.join(this.#root, 'build/release/build_info.cpp'), 'utf8');
    return /\.identity = "([^"]+)"/.exec(source)?.[1] ?? 'unknown';
  }

  async native(suites: readonly string[], sanitizer?: Sanitizer): Promise<readonly TestCount[]> {
    if (sanitizer) await this.#buildNative(`--sanitize=${sanitizer}`);
    const folder = sanitizer === undefined ? 'release' : FOLDERS[sanitizer];
    const report = await this.#reportFile(`framework-${folder}.json`);
    const leftOut = sanitizer === undefined ? undefined : LEFT_OUT[sanitizer];
    const wanted = suites
      .map((suite) => (suite === '*' ? '*' : `${suite}.*:*/${suite}.*`))
      .join(':');
    const filter = `${wanted}${leftOut === undefined ? '' : `:-${leftOut}.*`}`;
    const ended = await this.#run(path.join(this.#root, 'build', folder, 'native_tests'), [
      '--gtest_brief=1',
      `--gtest_filter=${filter}`,
      `--gtest_output=json:${report}`,
    ]);
    const counts = gtestCounts(await readJson(report));
    const every = suites.includes('*') ? [sum('native/tests', counts)] : bySuite(suites, counts);
    return ended
      ? every
      : [...every, { name: `native_tests (${folder})`, passed: 0, failed: 1, skipped: 0 }];
  }

  async vitest(files: readonly string[]): Promise<readonly TestCount[]> {
    const unknown = files.filter((file) => !this.#vitestCounts.has(file));
    if (unknown.length > 0) {
      const report = await this.#reportFile('framework-vitest.json');
      await this.#run(process.execPath, [
        path.join(this.#root, 'node_modules/vitest/vitest.mjs'),
        'run',
        '--reporter=json',
        `--outputFile.json=${report}`,
        ...unknown,
      ]);
      const counts = vitestCounts(await readJson(report), this.#root);
      for (const file of unknown) {
        const none = { name: file, passed: 0, failed: 0, skipped: 0 };
        this.#vitestCounts.set(file, counts.find(({ name }) => name === file) ?? none);
      }
    }
    return files.flatMap((file) => this.#vitestCounts.get(file) ?? []);
  }

  async #buildNative(option: string): Promise<void> {
    const script = path.join(this.#root, 'scripts/build-native.mjs');
    if (await this.#run(process.execPath, [script, option], 'inherit')) return;
    throw new WavepoolError('ADDON_MISSING', `build-native.mjs ${option} failed`);
  }

  async #reportFile(name: string): Promise<string> {
    const folder = path.join(this.#root, 'build/test-reports');
    await mkdir(folder, { recursive: true });
    const file = path.join(folder, name);
    await rm(file, { force: true });
    return file;
  }

  /** Runs a program, and tells whether it ended well. @throws {WavepoolError} CANCELLED */
  async #run(
    command: string,
    args: readonly string[],
    errors: 'ignore' | 'inherit' = 'ignore',
  ): Promise<boolean> {
    const { environment, signal } = this.#options;
    const child = spawn(command, args, {
      cwd: this.#root,
      env: { ...environment, ...SANITIZER_SETTINGS },
      stdio: ['ignore', 'ignore', errors],
    });
    const kill = (): void => void child.kill();
    signal?.addEventListener('abort', kill, { once: true });
    const code = await new Promise<number | null>((resolve) => {
      child.once('error', () => resolve(null));
      child.once('exit', resolve);
    });
    signal?.removeEventListener('abort', kill);
    if (signal?.aborted) throw new WavepoolError('CANCELLED', 'the validation was stopped');
    return code === 0;
  }
}

async function readJson(file: string): Promise<unknown> {
  const text = await readFile(file, 'utf8').catch(() => 'null');
  return JSON.parse(text);
}

/** The values of a list inside unknown JSON, or none. */
function listOf(value: unknown, key: string): unknown[] {
  const list = memberOf(value, key);
  return Array.isArray(list) ? list : [];
}

function gtestCounts(report: unknown): TestCount[] {
  return listOf(report, 'testsuites').map((suite) => {
    const tests = listOf(suite, 'testsuite');
    const skipped = tests.filter((one) => memberOf(one, 'result') === 'SKIPPED').length;
    const failed = tests.filter((one) => listOf(one, 'failures').length > 0).length;
    const name = String(memberOf(suite, 'name'));
    return { name, passed: tests.length - skipped - failed, failed, skipped };
  });
}

/** A suite with parameters reports as PREFIX/SUITE. */
function bySuite(suites: readonly string[], counts: readonly TestCount[]): TestCount[] {
  return suites.map((suite) =>
    sum(
      `native/tests ${suite}`,
      counts.filter(({ name }) => name.split('/').includes(suite)),
    ),
  );
}

function sum(name: string, counts: readonly TestCount[]): TestCount {
  return counts.reduce(
    (total, { passed, failed, skipped }) => ({
      name,
      passed: total.passed + passed,
      failed: total.failed + failed,
      skipped: total.skipped + skipped,
    }),
    { name, passed: 0, failed: 0, skipped: 0 },
  );
}

function vitestCounts(report: unknown, root: string): TestCount[] {
  return listOf(report, 'testResults').map((file) => {
    const statuses = listOf(file, 'assertionResults').map((one) => memberOf(one, 'status'));
    const passed = statuses.filter((status) => status === 'passed').length;
    const tests = statuses.filter((status) => status === 'failed').length;
    // A file that could not be loaded has no tests that could have failed.
    const failed = tests === 0 && memberOf(file, 'status') === 'failed' ? 1 : tests;
    const name = path.relative(root, String(memberOf(file, 'name')));
    return { name, passed, failed, skipped: statuses.length - passed - tests };
  });
}

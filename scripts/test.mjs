/**
 * Every test, on a machine with nothing but Node: set-up, style, C++ tests (plain, then under ASan+UBSan and TSan),
 * then Vitest. Ends with one line: N passed, N failed.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { ROOT, setup } from './setup.mjs';

const REPORTS = path.join(ROOT, 'build/test-reports');
/** Processes among which the tests of the C++ program are divided: most tests have one thread. Two are what the memory of a small machine holds. */
const SHARDS = Math.min(availableParallelism(), 2);
const totals = { passed: 0, failed: 0, skipped: 0 };

/** Runs `work`, telling what it is and how long it took. */
async function step(title, work) {
  console.log(`\n── ${title}`);
  const started = Date.now();
  const result = await work();
  console.log(`── ${title}: ${((Date.now() - started) / 1000).toFixed(0)} s`);
  return result;
}

async function run(command, args, env = {}) {
  const child = spawn(command, args, {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...env },
  });
  try {
    const [code] = await once(child, 'exit');
    return code === 0;
  } catch (error) {
    console.error(error.message);
    return false;
  }
}

/** A step without counts of its own is one test. */
async function check(title, command, args) {
  if (await step(title, () => run(command, args))) totals.passed += 1;
  else totals.failed += 1;
}

/** Runs a test program that writes a JSON report, and adds up what the report says. */
async function suite(report, command, args, env, count) {
  const file = path.join(REPORTS, report);
  rmSync(file, { force: true });
  const ok = await run(command, args(file), env);
  const counts = existsSync(file)
    ? count(JSON.parse(readFileSync(file, 'utf8')))
    : { passed: 0, failed: 0, skipped: 0 };
  for (const key of Object.keys(totals)) totals[key] += counts[key];
  // A program that died, or failed outside of a test, has failed even if its report does not say so.
  if (!ok && counts.failed === 0) totals.failed += 1;
}

function gtestCounts(report) {
  const tests = report.testsuites.flatMap((each) => each.testsuite);
  const skipped = tests.filter((test) => test.result === 'SKIPPED').length;
  const failed = tests.filter((test) => (test.failures ?? []).length > 0).length;
  return { passed: tests.length - skipped - failed, failed, skipped };
}

function vitestCounts(report) {
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + (report.success || report.numFailedTests > 0 ? 0 : 1),
    skipped: report.numPendingTests + report.numTodoTests,
  };
}

/** The C++ tests look for NAME.gguf in one folder, whatever the format: its reader is told by content. */
function linkModels() {
  const folder = path.join(ROOT, 'build/test-models');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const located = spawnSync(
    process.execPath,
    ['dist/src/cli/main.js', 'models', 'list', '--json'],
    {
      cwd: ROOT,
      encoding: 'utf8',
    },
  );
  for (const model of JSON.parse(located.stdout).models) {
    if (model.path) symlinkSync(model.path, path.join(folder, `${model.id}.gguf`));
  }
  return folder;
}

/** One thread, and slow: the same code runs in tests of several threads, or under AddressSanitizer alone. */
const NOT_UNDER_TSAN = [
  ...[
    '*/Stock',
    '*Refused*',
    'ModelPlan.*',
    '*SpeechGivesSomeText*',
    '*MemoryIsAllocated*',
    '*HoldsNoMore*',
  ],
  ...['Hears', 'Answers', 'Draws', 'Puts', 'Finds', 'Takes'].map(
    (verb) => `WhisperSession.${verb}*`,
  ),
  ...['moonshine', 'whisper'].flatMap((family) => [
    `*AnItemInABatchEquals*/${family}`,
    `*ACancelledMember*/${family}`,
  ]),
];

async function nativeTests(title, folder, models, filter = '*') {
  const shard = (index) =>
    suite(
      `native-${path.basename(folder)}-${index}.json`,
      `${folder}/native_tests`,
      (file) => ['--gtest_brief=1', `--gtest_filter=${filter}`, `--gtest_output=json:${file}`],
      {
        WAVEPOOL_TEST_MODELS: models,
        ASAN_OPTIONS: 'detect_leaks=1',
        UBSAN_OPTIONS: 'halt_on_error=1:print_stacktrace=1',
        TSAN_OPTIONS: 'halt_on_error=1',
        GTEST_TOTAL_SHARDS: String(SHARDS),
        GTEST_SHARD_INDEX: String(index),
      },
      gtestCounts,
    );
  await step(title, () => Promise.all(Array.from({ length: SHARDS }, (_, index) => shard(index))));
}

async function main() {
  mkdirSync(REPORTS, { recursive: true });
  setup({ forTests: true });
  const models = linkModels();
  await check('style and types', 'npm', ['run', '--silent', 'lint']);
  await nativeTests('C++ tests', path.join(ROOT, 'build/release'), models);
  for (const [name, sanitizer, filter] of [
    ['asan', 'address,undefined', '*'],
    ['tsan', 'thread', `-${NOT_UNDER_TSAN.join(':')}`],
  ]) {
    await check(`build with -fsanitize=${sanitizer}`, process.execPath, [
      'scripts/build-native.mjs',
      `--sanitize=${sanitizer}`,
    ]);
    const folder = path.join(ROOT, 'build', name);
    await nativeTests(`C++ tests, -fsanitize=${sanitizer}`, folder, models, filter);
  }
  const vitest = (file) => [
    'node_modules/vitest/vitest.mjs',
    'run',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${file}`,
  ];
  await step('TypeScript tests', () =>
    suite('vitest.json', process.execPath, vitest, {}, vitestCounts),
  );
}

try {
  await main();
} catch (error) {
  console.error(`\nStopped: ${error.message}`);
  totals.failed += 1;
}
const skipped = totals.skipped > 0 ? `, ${totals.skipped} skipped` : '';
console.log(`\n${totals.passed} passed, ${totals.failed} failed${skipped}`);
process.exitCode = totals.failed > 0 ? 1 : 0;

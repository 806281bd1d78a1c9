// Feeds damaged inputs for as long as asked: decoders under ASan and UBSan, then job schemas and HTTP bodies.
// Usage: npm run fuzz [-- --minutes N] [--seed N]      N minutes for the decoders, then rounds in proportion
// An input that breaks a decoder stays in build/fuzz/last-input: add it to test/fixtures/audio-corpus, then fix it.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';

const ROOT = path.resolve(import.meta.dirname, '..');
const ROUNDS_PER_MINUTE = 20_000;

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, seed: { type: 'string' } },
});
const minutes = Number(values.minutes);
const seed = values.seed ?? String(Math.floor(Math.random() * 2 ** 31));
const kept = path.join(ROOT, 'build/fuzz/last-input');
mkdirSync(path.dirname(kept), { recursive: true });

function step(title, command, args, env = {}) {
  console.log(`── ${title}`);
  const { status } = spawnSync(command, args, {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, WAVEPOOL_FUZZ_SEED: seed, ...env },
  });
  return status === 0;
}

console.log(`seed ${seed}, ${minutes} minutes`);
const node = process.execPath;
const vitest = ['node_modules/vitest/vitest.mjs', 'run', 'test/chaos/request-fuzz.redis.test.ts'];
const passed = [
  step('build', node, ['scripts/build-native.mjs', '--sanitize=address,undefined']),
  step('decoders', 'build/asan/native_tests', ['--gtest_filter=AudioCorpusFuzz.*'], {
    WAVEPOOL_FUZZ_MINUTES: String(minutes),
    WAVEPOOL_FUZZ_KEEP: kept,
    UBSAN_OPTIONS: 'halt_on_error=1:print_stacktrace=1',
  }),
  step('requests', node, vitest, {
    WAVEPOOL_FUZZ_ROUNDS: String(Math.round(minutes * ROUNDS_PER_MINUTE)),
  }),
];
if (!passed[1]) console.log(`the input at the time: ${kept}`);
process.exitCode = passed.every(Boolean) ? 0 : 1;

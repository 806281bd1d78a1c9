// Builds the native code. Usage: node scripts/build-native.mjs [--tests] [--progress] [--sanitize=address,undefined|thread] [--jobs=N]
//   (nothing)    build/release/Release/addon.node
//   --tests      also addon_test.node beside it, and build/release/native_tests and whisper_cli
//   --progress   also tells on stderr how far it has got
//   --sanitize   only native_tests, in build/asan or build/tsan
// Takes well under two seconds when nothing has changed.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

const ROOT = path.resolve(import.meta.dirname, '..');
const NATIVE = path.join(ROOT, 'native');
const SANITIZED = { 'address,undefined': 'asan', thread: 'tsan' };

const { values: options } = parseArgs({
  options: {
    tests: { type: 'boolean', default: false },
    progress: { type: 'boolean', default: false },
    sanitize: { type: 'string' },
    jobs: { type: 'string', default: String(Math.min(availableParallelism(), 8)) },
  },
});

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/** Runs a tool; its output is shown only when it fails. */
function run(command, args) {
  const { status, error, stdout, stderr } = spawnSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status === 0) return stdout;
  process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`);
  return fail(`${command} failed${error ? `: ${error.message}` : ''}`);
}

/** Like `run`, and writes a line for each tenth that is done: `[ 40%]` of Make, `[120/300]` of Ninja. */
async function runWithProgress(command, args) {
  const child = spawn(command, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  const lines = [];
  let told = -1;
  for await (const line of createInterface(child.stdout)) {
    lines.push(line);
    const [, percent, done, all] = /^\[\s*(?:(\d+)%|(\d+)\/(\d+))\]/.exec(line) ?? [];
    const tenths = Math.floor(percent === undefined ? (10 * done) / all : percent / 10);
    if (tenths > told) process.stderr.write(`native: ${10 * tenths} % compiled\n`);
    if (tenths > told) told = tenths;
  }
  const [status] = await ended;
  const output = lines.join('\n');
  if (status === 0) return output;
  process.stderr.write(`${output}\n`);
  return fail(`${command} failed`);
}

const has = (tool) => spawnSync(tool, ['--version'], { stdio: 'ignore' }).status === 0;

/** Configures once per set of arguments; CMake itself notices changed lists and sources. */
function configure(build, command, args) {
  const stamp = path.join(build, 'configured.txt');
  const key = JSON.stringify([command, ...args]);
  const cached = existsSync(path.join(build, 'CMakeCache.txt'));
  if (cached && existsSync(stamp) && readFileSync(stamp, 'utf8') === key) return;
  mkdirSync(build, { recursive: true });
  run(command, args);
  writeFileSync(stamp, key);
}

/** Beside the sources; of an installed package, where npm has put the sources of ggml. */
function nodeModules() {
  if (existsSync(path.join(ROOT, 'node_modules/nodejs-whisper'))) return [];
  const manifest = createRequire(import.meta.url).resolve('nodejs-whisper/package.json');
  return [`--CDNODE_MODULES_DIR=${path.resolve(manifest, '../..')}`];
}

if (!has('cmake')) fail('cmake is not installed: `wavepool doctor` shows the command that does');
const startedAt = performance.now();
let build;
let targets;
if (options.sanitize === undefined) {
  build = path.join(ROOT, 'build', 'release');
  targets = options.tests ? ['addon', 'addon_test', 'native_tests', 'whisper_cli'] : ['addon'];
  const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
  // A tree that once built the tests keeps them configured: switching back and forth rebuilds nothing.
  const stamp = path.join(build, 'configured.txt');
  const tests =
    options.tests || (existsSync(stamp) && readFileSync(stamp, 'utf8').includes('NATIVE_TESTS=ON'));
  configure(build, process.execPath, [
    cmakeJs,
    'configure',
    '--directory',
    NATIVE,
    '--out',
    build,
    `--CDNATIVE_TESTS=${tests ? 'ON' : 'OFF'}`,
    ...nodeModules(),
  ]);
} else {
  const folder = SANITIZED[options.sanitize];
  if (folder === undefined) fail(`--sanitize takes ${Object.keys(SANITIZED).join(' or ')}`);
  build = path.join(ROOT, 'build', folder);
  targets = ['native_tests'];
  configure(build, 'cmake', [
    '-S',
    NATIVE,
    '-B',
    build,
    ...(has('ninja') ? ['-G', 'Ninja'] : []),
    '-DNATIVE_TESTS=ON',
    `-DNATIVE_SANITIZE=${options.sanitize}`,
  ]);
}
const buildArgs = ['--build', build, '--parallel', options.jobs, '--target', ...targets];
const output = await (options.progress ? runWithProgress : run)('cmake', buildArgs);
const compiled = output.split('\n').filter((line) => /Building C(XX)? object/.test(line)).length;
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
process.stdout.write(
  `native: ${targets.join(', ')} in ${path.relative(ROOT, build)} (${compiled} files compiled, ${seconds} s)\n`,
);

/**
 * Everything between a fresh clone and a working `wavepool`: system packages, npm packages, the native addon, the
 * TypeScript build, the weights. Each step does only what is missing. `--tests` adds what the tests need.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, statSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ensureS3Server } from './s3-server.mjs';
import { ensureSystemPackages } from './system-packages.mjs';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const MODELS = ['moonshine-tiny', 'silero-vad'];
/** Besides those; 75 MB, from PyPI. */
const TEST_MODELS = ['whisper-tiny.en'];
const OLDEST_NODE = [20, 19];

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [wantMajor, wantMinor] = OLDEST_NODE;
  if (major > wantMajor || (major === wantMajor && minor >= wantMinor)) return;
  throw new Error(
    `Node.js ${wantMajor}.${wantMinor} or newer is needed; this is ${process.versions.node}`,
  );
}

/** Runs a command in the project folder; throws when it fails. */
export function run(command, args, options = {}) {
  const { status, signal, error } = spawnSync(command, args, {
    cwd: ROOT,
    stdio: 'inherit',
    ...options,
  });
  if (error) throw new Error(`${command}: ${error.message}`);
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${signal ?? status}`);
}

function ensureNodeModules() {
  const installed = path.join(ROOT, 'node_modules/.package-lock.json');
  const lock = path.join(ROOT, 'package-lock.json');
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  // `npm ci` empties what the link leads to, which is somebody else's.
  if (lstatSync(path.dirname(installed), { throwIfNoEntry: false })?.isSymbolicLink())
    throw new Error(
      'node_modules is a symbolic link to packages that do not fit package-lock.json',
    );
  console.log('Installing npm packages');
  // Install scripts are not needed by anything here, and many machines forbid them.
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund']);
}

/** Brings everything up to date, in order. */
export function setup({ forTests = false } = {}) {
  checkNode();
  ensureSystemPackages({ forTests });
  ensureNodeModules();
  run(process.execPath, ['scripts/build-native.mjs', ...(forTests ? ['--tests'] : [])]);
  run(process.execPath, ['scripts/build.mjs']);
  for (const model of [...MODELS, ...(forTests ? TEST_MODELS : [])]) {
    run(process.execPath, ['dist/src/cli/main.js', 'models', 'pull', model, '--quiet']);
  }
  if (forTests) ensureS3Server();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    setup({ forTests: process.argv.includes('--tests') });
  } catch (error) {
    console.error(`Setup stopped: ${error.message}`);
    process.exitCode = 3;
  }
}

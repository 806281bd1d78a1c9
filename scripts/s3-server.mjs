/**
 * The S3 server that the tests talk to: moto, from PyPI, in a Python environment in the user's cache folder. As a program, it
 * prints the command that starts the server, as JSON.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';

const FOLDER = path.resolve(
  path.dirname(fileURLToPath(import.meta.url)),
  '../test/support/s3-server',
);
const REQUIREMENTS = path.join(FOLDER, 'requirements.txt');

/** Named by what is in it: another list makes another environment. */
function environmentFolder() {
  const { XDG_CACHE_HOME: cache = '' } = process.env;
  const home = path.isAbsolute(cache) ? cache : path.join(homedir(), '.cache');
  const list = createHash('sha256').update(readFileSync(REQUIREMENTS)).digest('hex').slice(0, 12);
  return path.join(home, 'wavepool', `s3-server-${list}`);
}

function serverCommand() {
  return [path.join(environmentFolder(), 'bin/python'), path.join(FOLDER, 'server.py')];
}

function run(command, args) {
  const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (error || status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error ?? stderr}`);
}

/** Installs the server unless it is there. An environment cannot be moved: a mark tells that it is whole. */
export function ensureS3Server() {
  const folder = environmentFolder();
  const mark = path.join(folder, 'whole');
  if (existsSync(mark)) return;
  console.log('Installing an S3 server for the tests (moto, from PyPI)');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.dirname(folder), { recursive: true });
  // Where this fails, Debian has it in the package python3-venv.
  run('python3', ['-m', 'venv', folder]);
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-compile'];
  run(path.join(folder, 'bin/pip'), ['install', ...quiet, '--requirement', REQUIREMENTS]);
  writeFileSync(mark, '');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  console.log(JSON.stringify(serverCommand()));
}

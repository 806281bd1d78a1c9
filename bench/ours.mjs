/** Wavepool as it is measured: the engine alone, and the whole `wavepool run`. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { NodeProgram } from './node-program.mjs';

const CLI = new URL('../dist/src/cli/main.js', import.meta.url).pathname;
const FIRST_TEXT_LOOK_MS = 10;

/** Installs a model of the catalogue unless it is there; returns the path of its weights. */
export function pullModel(id) {
  const models = (...args) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [CLI, 'models', ...args], {
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`wavepool models ${args.join(' ')}: ${stderr}`);
    return stdout;
  };
  models('pull', id, '--quiet');
  return JSON.parse(models('list', '--json')).models.find((model) => model.id === id).path;
}

/** One process with one pool, fed with whole clips. */
export class OurEngine {
  #program;

  static async start(settings) {
    const engine = new OurEngine();
    engine.#program = new NodeProgram('./engine-process.mjs');
    const ready = engine.#program.hear('ready');
    engine.#program.send({ type: 'start', ...settings });
    await ready;
    return engine;
  }

  pids() {
    return [this.#program.pid];
  }

  async run(files) {
    const startedAt = performance.now();
    let firstSeconds;
    const first = this.#program.hear('first').then(() => {
      firstSeconds = (performance.now() - startedAt) / 1000;
    });
    const done = this.#program.hear('done');
    this.#program.send({ type: 'run', files });
    const [{ seconds, texts }] = await Promise.all([done, first]);
    return { seconds, firstSeconds, texts };
  }

  stop() {
    return this.#program.stop();
  }
}

function seesText(folder) {
  try {
    return readdirSync(folder).some((name) => name.endsWith('.txt'));
  } catch {
    return false;
  }
}

/** `wavepool run` over a folder, from the command to its exit, with a data directory and a Redis of its own. */
export async function runCommand({ folder, names }, args = []) {
  const home = mkdtempSync(path.join(tmpdir(), 'wavepool-bench-'));
  const out = path.join(home, 'out');
  const places = ['--out', out, '--data-dir', path.join(home, 'data')];
  let firstSeconds;
  try {
    const startedAt = performance.now();
    const child = spawn(process.execPath, [CLI, 'run', folder, ...places, '--quiet', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const look = setInterval(() => {
      if (!seesText(out)) return;
      firstSeconds = (performance.now() - startedAt) / 1000;
      clearInterval(look);
    }, FIRST_TEXT_LOOK_MS);
    const errors = text(child.stderr);
    const [status] = await once(child, 'close');
    clearInterval(look);
    const seconds = (performance.now() - startedAt) / 1000;
    if (status !== 0) throw new Error(`wavepool run ended with ${status}: ${await errors}`);
    const texts = names.map((name) =>
      readFileSync(path.join(out, `${path.parse(name).name}.txt`), 'utf8')
        .replaceAll('\n', ' ')
        .trim(),
    );
    return { seconds, firstSeconds: firstSeconds ?? seconds, texts };
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

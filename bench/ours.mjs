/** Wavepool as it is measured: the engine alone (no queue, no detector), and the whole `wavepool run`. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { NativeEngine } from '../dist/src/engine/native-engine.js';

const CLI = new URL('../dist/src/cli/main.js', import.meta.url).pathname;

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

/** One engine with one pool, fed with whole clips. */
export class OurEngine {
  #engine = new NativeEngine();
  #model;
  #pool;
  #batch;

  static async start({ weights, slots, threads, batch }) {
    const ours = new OurEngine();
    ours.#batch = batch;
    ours.#model = await ours.#engine.loadModel(weights);
    ours.#pool = await ours.#model.createPool({ slots, threads, maxBatch: batch, mode: 'offline' });
    return ours;
  }

  /** Decodes and recognizes the files in batches of similar length; returns wall seconds and texts in order. */
  async run(files) {
    const startedAt = performance.now();
    const clips = await Promise.all(files.map((file, index) => this.#open(file, index)));
    clips.sort((a, b) => b.audio.endSample - a.audio.endSample);
    const texts = [];
    const slot = async (index) => {
      while (clips.length > 0) await this.#runBatch(index, clips.splice(0, this.#batch), texts);
    };
    await Promise.all(Array.from({ length: this.#pool.size }, (_, index) => slot(index)));
    return { seconds: (performance.now() - startedAt) / 1000, texts };
  }

  async #open(file, index) {
    const audio = await this.#engine.openAudio({ kind: 'file', path: file });
    await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
    return { audio, index };
  }

  async #runBatch(slot, clips, texts) {
    const items = clips.map(({ audio }) => ({
      audio,
      startSample: 0,
      endSample: audio.endSample,
      options: {},
    }));
    const outcomes = await this.#pool.run(slot, items).done;
    for (const [i, { audio, index }] of clips.entries()) {
      if (!outcomes[i].ok) throw outcomes[i].error;
      texts[index] = outcomes[i].result.text;
      await audio.close();
    }
  }

  async stop() {
    await this.#pool.close();
    await this.#model.close();
  }
}

/** `wavepool run` over a folder, from the command to its exit, with a data directory and a Redis of its own. */
export function runCommand(folder, names, args) {
  const home = mkdtempSync(path.join(tmpdir(), 'wavepool-bench-'));
  try {
    const out = path.join(home, 'out');
    const startedAt = performance.now();
    const { status, stderr } = spawnSync(
      process.execPath,
      [CLI, 'run', folder, '--out', out, '--data-dir', path.join(home, 'data'), '--quiet', ...args],
      { encoding: 'utf8' },
    );
    const seconds = (performance.now() - startedAt) / 1000;
    if (status !== 0) throw new Error(`wavepool run ended with ${status}: ${stderr}`);
    const texts = names.map((name) =>
      readFileSync(path.join(out, `${path.parse(name).name}.txt`), 'utf8')
        .replaceAll('\n', ' ')
        .trim(),
    );
    return { seconds, texts };
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

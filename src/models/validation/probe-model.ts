import { toWavepoolError } from '../../core/errors.ts';
import type { ModelProbe, ProbeRequest } from '../../core/evidence/validation-ipc.ts';
import type { Engine, LoadedModel } from '../../runtime/engine.ts';

type Offer = Pick<ModelProbe, 'capacity' | 'sessionBytes' | 'refusal'>;

function refused(refusal: string): Offer {
  return { capacity: 0, sessionBytes: 0, refusal };
}

/**
 * Loads the model with one session and says what it is. For a process of its own: a start of the procedure must not find
 * anything warmed up.
 * @throws {WavepoolError} why the model cannot be loaded
 */
export async function probeModel(engine: Engine, request: ProbeRequest): Promise<ModelProbe> {
  const model = await engine.loadModel(request.path);
  try {
    const { family, task, nativeBatch, stateful, maxSegmentSeconds, windowSamples, weightBytes } =
      model.info;
    const { identity, ggml, compiler, flags, backend } = engine.build;
    return {
      build: { identity, ggml, compiler, flags, backend },
      family,
      task,
      nativeBatch,
      stateful,
      maxSegmentSeconds,
      windowSamples,
      weightBytes,
      ...(await offerOf(model, request)),
    };
  } finally {
    await model.close();
  }
}

async function offerOf(model: LoadedModel, { mode, threads, batch }: ProbeRequest): Promise<Offer> {
  const { family, nativeBatch } = model.info;
  if (mode === 'batch' && !nativeBatch) {
    return refused(`${family} has no native batches`);
  }
  try {
    const runMode = mode === 'streaming' ? 'streaming' : 'offline';
    const pool = await model.createPool({ slots: 1, mode: runMode, threads, maxBatch: batch });
    const { capacity, sessionBytes } = pool;
    await pool.close();
    return { capacity, sessionBytes: sessionBytes[0] ?? 0 };
  } catch (thrown) {
    const { code, message } = toWavepoolError(thrown);
    if (code !== 'SLOTS_UNSUPPORTED' && code !== 'INVALID_REQUEST') throw thrown;
    return refused(message);
  }
}

/**
 * A fresh process that tells how fast a model is in one layout. Its parent asks over IPC, and ends the process; without a parent
 * it ends by itself.
 */
import process from 'node:process';
import { toWavepoolError } from '../src/core/errors.ts';
import { type TuningAnswer, TuningRequest } from '../src/core/evidence/tuning.ts';
import { NativeEngine } from '../src/engine/native-engine.ts';
import { TuningPool } from '../src/models/tuning/tuning-pool.ts';
import { systemClock } from '../src/runtime/clock.ts';

let pool: TuningPool | undefined;

async function answer(request: TuningRequest): Promise<TuningAnswer> {
  try {
    if (request.type === 'open') {
      const engine = new NativeEngine({ addon: request.addonPath });
      pool = await TuningPool.open(engine, request, systemClock);
      return { type: 'opened' };
    }
    if (pool === undefined) throw new RangeError('nothing is open yet');
    return { type: 'measured', ...(await pool.measure(request.batch, request.durationMs)) };
  } catch (thrown) {
    const { code, detail } = toWavepoolError(thrown);
    return { type: 'failed', code, detail };
  }
}

process.on('message', (raw) => {
  void answer(TuningRequest.parse(raw)).then((message) => process.send?.(message));
});
process.on('disconnect', () => process.exit());

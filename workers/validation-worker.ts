/**
 * A fresh process for one start of the validation procedure, or for a look at a model. Its parent sends one request over
 * IPC, hears of each phase and of the end, and ends the process. Exit code 3 when there is no parent.
 */
import process from 'node:process';
import { toWavepoolError } from '../src/core/errors.ts';
import {
  parseValidationRequest,
  type ValidationMessage,
  type ValidationRequest,
} from '../src/core/evidence/validation-ipc.ts';
import { NativeEngine } from '../src/engine/native-engine.ts';
import { probeModel } from '../src/models/validation/probe-model.ts';
import { runStart } from '../src/models/validation/run-start.ts';

function report(message: ValidationMessage): void {
  // A parent that has gone is noticed by 'disconnect'.
  if (process.connected) process.send?.(message);
}

/** There is a collector when node was started with --expose-gc. */
function collectGarbage(): void {
  globalThis.gc?.();
}

async function answer(request: ValidationRequest): Promise<ValidationMessage> {
  if (request.type === 'probe') {
    const engine = new NativeEngine({ addon: request.request.addonPath });
    return { type: 'probed', probe: await probeModel(engine, request.request) };
  }
  const { plan } = request;
  const engine = new NativeEngine({ addon: plan.addonPath });
  const onPhase = (phase: Extract<ValidationMessage, { type: 'phase' }>['phase'], wave: number) =>
    report({ type: 'phase', phase, wave });
  return { type: 'report', report: await runStart(plan, engine, { onPhase, collectGarbage }) };
}

process.on('message', (raw) => {
  const request = parseValidationRequest(raw);
  if (request === undefined) return;
  answer(request).then(report, (thrown: unknown) => {
    const { code, detail } = toWavepoolError(thrown);
    report({ type: 'failed', code, detail });
  });
});
process.on('disconnect', () => process.exit());
// Ctrl-C reaches the whole process group; the parent decides what it means.
process.on('SIGINT', () => undefined);
if (!process.connected) process.exit(3);

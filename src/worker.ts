/**
 * For processes that run models: the only entry of the package that loads the native addon (on first use).
 *
 * @module wavepool/worker
 */
export { WorkerSettings } from './core/worker-settings.ts';
export { NativeEngine } from './engine/native-engine.ts';
export { ModelStore } from './models/model-store.ts';
export { systemClock } from './runtime/clock.ts';
export type { Engine } from './runtime/engine.ts';
export { ModelEntry } from './runtime/model-entry.ts';
export { Runtime } from './runtime/runtime.ts';
export { AudioWorker, type AudioWorkerOptions } from './worker/audio-worker.ts';
export { Supervisor, type SupervisorOptions } from './worker/supervisor.ts';

/**
 * For processes that run models: the only entry of the package that loads the native addon (on first use).
 *
 * @module wavepool/worker
 */
export { WorkerSettings } from './core/worker/worker-settings.ts';
export { NativeEngine } from './engine/native-engine.ts';
export { ModelStore } from './models/store/model-store.ts';
export { systemClock } from './runtime/clock.ts';
export type { Engine, PcmFormat, PcmSamples } from './runtime/engine.ts';
export { ModelEntry } from './runtime/models/model-entry.ts';
export { Runtime } from './runtime/runtime.ts';
export { AudioWorker, type AudioWorkerOptions } from './worker/audio-worker.ts';
export {
  type LiveDetectorOptions,
  liveDetectorConfiguration,
} from './worker/live/live-detector.ts';
export type {
  LiveSegment,
  LiveStream,
  LiveStreamOptions,
  LiveSummary,
} from './worker/live/live-stream.ts';
export {
  type LiveTranscriptionOptions,
  type LiveTranscriptSegment,
  openLiveTranscription,
} from './worker/live/live-transcription.ts';
export { type LiveVadOptions, openLiveVad } from './worker/live/live-vad.ts';
export { type PcmEncoding, readPcm } from './worker/live/pcm-reader.ts';
export { Supervisor, type SupervisorOptions } from './worker/supervisor/supervisor.ts';

/**
 * Wavepool's public API for producers: queues, directories, results, formats, errors. Importing it loads no native code;
 * a process that runs models imports `wavepool/worker`.
 *
 * @module wavepool
 */

export { type RunDirectoryOptions, runDirectory } from './bulk/run-directory.ts';
export { resolveRoots, type ScanRoots } from './bulk/scan.ts';
export type { RunEvent, RunSummary } from './bulk/summary.ts';
export { WavepoolClient, type WavepoolClientOptions } from './client/wavepool-client.ts';
export { type Config, readConfig } from './core/config.ts';
export {
  ERROR_CODES,
  type ErrorCode,
  errorRow,
  toWavepoolError,
  WavepoolError,
} from './core/errors.ts';
export {
  DetectionOptions,
  JobClocks,
  JobData,
  JobInput,
  JobOutcome,
  JobProgress,
  JobTask,
  NewJob,
  TranscribeOptions,
  VadOptions,
} from './core/job/job.ts';
export { NewSchedule } from './core/job/schedule.ts';
export { RateLimit, TenantRules } from './core/job/tenant.ts';
export {
  JobResult,
  SpeechActivity,
  SpeechActivitySegment,
  Transcript,
  TranscriptSegment,
  TranscriptWarning,
} from './core/results/job-result.ts';
export {
  FORMATS_OF_TASK,
  RESULT_FORMATS,
  type ResultFormat,
  renderResult,
  renderSpeech,
  SPEECH_FORMATS,
  type SpeechFormat,
} from './core/results/result-formats.ts';
export {
  renderTranscript,
  TRANSCRIPT_FORMATS,
  type TranscriptFormat,
} from './core/results/transcript-formats.ts';
export { AudioQueue } from './queue/audio-queue.ts';
export type { RedisAddress } from './queue/redis/connection.ts';
export { EmbeddedRedis } from './queue/redis/embedded-redis.ts';
export type { ScheduleStore, ScheduleView } from './queue/schedules.ts';
export { LocalResultStore } from './storage/local-result-store.ts';
export type { ResultStore } from './storage/result-store.ts';

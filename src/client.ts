/**
 * The entry for programs that only call a server: it loads neither a Redis client nor native code.
 *
 * @module wavepool/client
 */

export type { AudioSource } from './client/audio-source.ts';
export type {
  BatchFilter,
  BatchJobSettings,
  ClientBatch,
  WaitForBatchOptions,
} from './client/batches.ts';
export type { EventFeed } from './client/event-feed.ts';
export type { EventFilter, FollowOptions } from './client/events.ts';
export type { CallOptions } from './client/fleet.ts';
export type { JobFilter, JobSource } from './client/job-input.ts';
export type { ClientJob, ClientOutcome, SubmitOptions } from './client/jobs.ts';
export type { LiveOptions } from './client/live.ts';
export type { UploadOptions } from './client/uploads.ts';
export { WavepoolClient, type WavepoolClientOptions } from './client/wavepool-client.ts';
export type {
  CancelResource,
  JobPage,
  JobResource,
  JobState,
  ModelResource,
  UploadResource,
  WorkerResource,
} from './core/api.ts';
export type { BatchItemResource, BatchResource, BatchResultLine } from './core/batch-api.ts';
export type { ControlOutcome, ModelSettings, SwapStrategy } from './core/control.ts';
export { ControlFailedError } from './core/control-api.ts';
export { ERROR_CODES, type ErrorCode, WavepoolError } from './core/errors.ts';
export type { ServiceEvent } from './core/events.ts';
export type { LiveEvent } from './core/live-api.ts';
export { InvalidRequestError } from './core/problem.ts';
export type { SpeechActivity, SpeechActivitySegment } from './core/speech-activity.ts';
export type { RateLimit, TenantRules } from './core/tenant.ts';
export type { ScheduleRequestBody, ScheduleResource, TenantResource } from './core/tenant-api.ts';
export type { Transcript, TranscriptSegment } from './core/transcript.ts';
export type { DeliveryResource, SecretResource, WebhookMessage } from './core/webhook-message.ts';

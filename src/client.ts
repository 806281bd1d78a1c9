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
export type {
  ClientJob,
  ClientOutcome,
  JobFilter,
  JobSource,
  SubmitOptions,
} from './client/jobs.ts';
export type { LiveOptions } from './client/live.ts';
export type { CallOptions } from './client/transport.ts';
export type { UploadOptions } from './client/uploads.ts';
export { WavepoolClient, type WavepoolClientOptions } from './client/wavepool-client.ts';
export { ERROR_CODES, type ErrorCode, WavepoolError } from './core/errors.ts';
export type {
  CancelResource,
  JobPage,
  JobResource,
  JobState,
  ModelResource,
  UploadResource,
  WorkerResource,
} from './core/http/api.ts';
export type {
  ApiKeyRequestBody,
  ApiKeyResource,
  CreatedApiKeyResource,
} from './core/http/api-key.ts';
export type { BatchItemResource, BatchResource, BatchResultLine } from './core/http/batch-api.ts';
export { ControlFailedError } from './core/http/control-api.ts';
export type { ServiceEvent } from './core/http/events.ts';
export { InvalidRequestError } from './core/http/problem.ts';
export type {
  ScheduleRequestBody,
  ScheduleResource,
  TenantResource,
} from './core/http/tenant-api.ts';
export type {
  DeliveryResource,
  SecretResource,
  WebhookMessage,
} from './core/http/webhook-message.ts';
export type { RateLimit, TenantRules } from './core/job/tenant.ts';
export type { LiveEvent } from './core/live/live-api.ts';
export type {
  SpeechActivity,
  SpeechActivitySegment,
  Transcript,
  TranscriptSegment,
} from './core/results/job-result.ts';
export type { ControlOutcome, ModelSettings, SwapStrategy } from './core/worker/control.ts';

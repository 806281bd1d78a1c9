/** Tenants, rate limits and schedules in the HTTP interface: requests and answers. */
import { z } from 'zod';
import { JobTask, ModelId } from '../job/job.ts';
import { hasOneTiming, ONE_TIMING, ScheduleId, timingMembers } from '../job/schedule.ts';
import { RateLimit, TenantName, TenantRules } from '../job/tenant.ts';
import { apiSchemas } from '../openapi.ts';
import { InputResource, JobRequestInput, jobSettingsWith, Timestamp } from './api.ts';

const Count = z.int().min(0);

export const TenantParams = z.strictObject({ tenant: TenantName });

export const TenantResource = z
  .strictObject({
    tenant: TenantName.meta({ description: '* is every tenant without rules of its own' }),
    rules: TenantRules.nullable().meta({ description: 'null when it has none of its own' }),
    waiting: Count.meta({ description: 'jobs of all models, delayed ones left out' }),
    running: Count,
  })
  .register(apiSchemas, { id: 'Tenant' });
export type TenantResource = z.infer<typeof TenantResource>;

export const TenantList = z
  .strictObject({ items: z.array(TenantResource) })
  .register(apiSchemas, { id: 'TenantList' });

export const RateLimitResource = z
  .strictObject({ model: ModelId, rateLimit: RateLimit.nullable() })
  .register(apiSchemas, { id: 'ModelRateLimit' });
export type RateLimitResource = z.infer<typeof RateLimitResource>;

export const ScheduleParams = z.strictObject({ id: ScheduleId });

export const ScheduleRequest = jobSettingsWith({
  input: JobRequestInput.refine(
    ({ uploadId }) => uploadId === undefined,
    'uploads expire: give a path or a url',
  ),
  ...timingMembers,
})
  .refine(hasOneTiming, ONE_TIMING)
  .register(apiSchemas, { id: 'ScheduleRequest' });
export type ScheduleRequest = z.infer<typeof ScheduleRequest>;
export type ScheduleRequestBody = z.input<typeof ScheduleRequest>;

export const ScheduleResource = z
  .strictObject({
    id: ScheduleId,
    model: ModelId,
    task: JobTask,
    tenant: TenantName,
    input: InputResource,
    cron: z.string().nullable(),
    everyMs: z.int().nullable(),
    timezone: z.string().nullable(),
    nextAt: Timestamp.nullable(),
  })
  .register(apiSchemas, { id: 'Schedule' });
export type ScheduleResource = z.infer<typeof ScheduleResource>;

export const ScheduleList = z
  .strictObject({ items: z.array(ScheduleResource) })
  .register(apiSchemas, { id: 'ScheduleList' });

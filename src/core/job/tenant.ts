/** What an operator says of tenants: their share of the workers, and how much of them they may hold at once. */
import { z } from 'zod';
import { apiSchemas } from '../openapi.ts';

export const TenantName = z.string().min(1).max(128);
export type TenantName = z.infer<typeof TenantName>;

/** Whoever has no rules of its own. */
export const EVERY_OTHER_TENANT = '*';

export const TenantRules = z
  .strictObject({
    weight: z.number().min(0.0625).max(16).default(1).meta({
      description: 'share of the workers beside other tenants that wait: 2 gets twice what 1 gets',
    }),
    concurrency: z.int().min(1).max(10_000).optional().meta({
      description: 'most jobs of one model that run at once; without it there is no limit',
    }),
  })
  .register(apiSchemas, { id: 'TenantRules' });
export type TenantRules = z.infer<typeof TenantRules>;

/** What a queue is limited to, whoever its jobs are from. */
export const RateLimit = z
  .strictObject({
    jobs: z.int().min(1).max(1_000_000).meta({ description: 'that may start' }),
    durationMs: z.int().min(1).max(86_400_000).meta({ description: 'in so much time' }),
  })
  .register(apiSchemas, { id: 'RateLimit' });
export type RateLimit = z.infer<typeof RateLimit>;

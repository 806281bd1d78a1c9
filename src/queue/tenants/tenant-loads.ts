/** How many jobs each tenant has waiting and running. */
import type { Redis } from 'ioredis';
import type { ModelId } from '../../core/job/job.ts';
import { toRedisError } from '../redis/connection.ts';
import { bullKey, queueNameOf } from '../redis/queue-names.ts';
import { FairShare } from './fair-share.ts';
import type { JobTenants } from './job-tenants.ts';

export interface TenantLoad {
  readonly tenant: string;
  readonly model: ModelId;
  /** Delayed jobs and requests that somebody waits for left out. */
  readonly waiting: number;
  readonly running: number;
}

/** Of tenants that have any. @throws {WavepoolError} REDIS_UNAVAILABLE */
export async function readTenantLoads(
  connection: Redis,
  models: readonly ModelId[],
  owners: JobTenants,
): Promise<TenantLoad[]> {
  const loads = await Promise.all(models.map((model) => loadsOf(connection, model, owners)));
  return loads.flat();
}

async function loadsOf(
  connection: Redis,
  model: ModelId,
  owners: JobTenants,
): Promise<TenantLoad[]> {
  const queue = queueNameOf(model);
  const [waiting, active] = await Promise.all([
    new FairShare(connection, queue).waiting(),
    connection.lrange(bullKey(connection, queue, 'active'), '0', '-1'),
  ]).catch((error: unknown) => {
    throw toRedisError(error);
  });
  const jobs = active.map((jobId) => ({ model, jobId }));
  await owners.lookUp(jobs);
  const running = new Map<string, number>();
  for (const job of jobs) {
    const tenant = owners.tenantOf(job);
    if (tenant !== undefined) running.set(tenant, (running.get(tenant) ?? 0) + 1);
  }
  return [...new Set([...waiting.keys(), ...running.keys()])].toSorted().map((tenant) => ({
    tenant,
    model,
    waiting: waiting.get(tenant) ?? 0,
    running: running.get(tenant) ?? 0,
  }));
}

/** Whose jobs they are. The event stream does not say, so it is looked up, and remembered for the latest jobs. */

import type { Redis } from 'ioredis';
import { JobOwner, type ModelId } from '../../core/job/job.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { toRedisError } from '../redis/connection.ts';
import { bullKey, queueNameOf } from '../redis/queue-names.ts';

export interface JobName {
  readonly model: ModelId;
  readonly jobId: string;
}

const REMEMBERED = 20_000;

export class JobTenants {
  readonly #connection: Redis;
  readonly #known = new Map<string, string>();

  constructor(connection: Redis) {
    this.#connection = connection;
  }

  /**
   * Makes sure that `tenantOf` knows these jobs, in so far as they are there.
   * @throws {WavepoolError} REDIS_UNAVAILABLE
   */
  async lookUp(jobs: readonly JobName[]): Promise<void> {
    const unknown = new Map(
      jobs.map((job) => [this.#keyOf(job), job] as const).filter(([key]) => !this.#known.has(key)),
    );
    if (unknown.size === 0) return;
    const pipeline = this.#connection.pipeline();
    for (const key of unknown.keys()) pipeline.hget(key, 'data');
    try {
      const replies = (await pipeline.exec()) ?? [];
      for (const [index, key] of [...unknown.keys()].entries()) {
        const [error, text] = replies[index] ?? [];
        if (error) throw error;
        const tenant = JobOwner.safeParse(parseJson(text)).data?.tenant;
        if (tenant !== undefined) this.#remember(key, tenant);
      }
    } catch (error) {
      throw toRedisError(error);
    }
  }

  tenantOf(job: JobName): string | undefined {
    return this.#known.get(this.#keyOf(job));
  }

  #remember(key: string, tenant: string): void {
    this.#known.set(key, tenant);
    if (this.#known.size <= REMEMBERED) return;
    const [oldest] = this.#known.keys();
    if (oldest !== undefined) this.#known.delete(oldest);
  }

  #keyOf({ model, jobId }: JobName): string {
    return bullKey(this.#connection, queueNameOf(model), jobId);
  }
}

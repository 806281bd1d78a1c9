/** Who shares the workers, and jobs that come again and again. */

import {
  ScheduleList,
  type ScheduleRequestBody,
  ScheduleResource,
  TenantList,
  TenantResource,
} from '../core/http/tenant-api.ts';
import type { TenantRules } from '../core/job/tenant.ts';
import { answerAs, noAnswer } from './answers.ts';
import { apiPath, type CallOptions, type Transport } from './transport.ts';

export class Tenants {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Those that have rules of their own, or jobs that wait or run. */
  async list({ signal }: CallOptions = {}): Promise<TenantResource[]> {
    const request = { method: 'GET', path: '/v1/tenants', signal } as const;
    const { items } = await this.#transport.send(request, answerAs(TenantList));
    return items;
  }

  /**
   * Replaces the rules of a tenant, or with `*` those of every tenant without rules of its own.
   * @throws {WavepoolError} INVALID_REQUEST, FORBIDDEN
   */
  async set(
    tenant: string,
    rules: Partial<TenantRules>,
    { signal }: CallOptions = {},
  ): Promise<TenantResource> {
    const path = apiPath`/v1/tenants/${tenant}`;
    const request = { method: 'PUT', path, json: rules, signal } as const;
    return this.#transport.send(request, answerAs(TenantResource));
  }

  /** Idempotent. */
  async remove(tenant: string, { signal }: CallOptions = {}): Promise<void> {
    const path = apiPath`/v1/tenants/${tenant}`;
    await this.#transport.send({ method: 'DELETE', path, signal }, noAnswer);
  }
}

export class Schedules {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Those that come due first come first. */
  async list({ signal }: CallOptions = {}): Promise<ScheduleResource[]> {
    const request = { method: 'GET', path: '/v1/schedules', signal } as const;
    const { items } = await this.#transport.send(request, answerAs(ScheduleList));
    return items;
  }

  /**
   * Adds a schedule, or puts it in the place of the one of that id: a job, and `cron` (with a `timezone`) or `everyMs`.
   * @throws {WavepoolError} INVALID_REQUEST, MODEL_UNKNOWN, INPUT_NOT_FOUND, INPUT_FORBIDDEN
   */
  async set(
    id: string,
    schedule: ScheduleRequestBody,
    { signal }: CallOptions = {},
  ): Promise<ScheduleResource> {
    const path = apiPath`/v1/schedules/${id}`;
    const request = { method: 'PUT', path, json: schedule, signal } as const;
    return this.#transport.send(request, answerAs(ScheduleResource));
  }

  /** Idempotent. */
  async remove(id: string, { signal }: CallOptions = {}): Promise<void> {
    const path = apiPath`/v1/schedules/${id}`;
    await this.#transport.send({ method: 'DELETE', path, signal }, noAnswer);
  }
}

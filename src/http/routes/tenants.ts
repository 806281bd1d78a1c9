/** The rules of tenants for sharing workers, and the rate limits of models. */
import { ModelParams } from '../../core/http/api.ts';
import {
  RateLimitResource,
  TenantList,
  TenantParams,
  TenantResource,
} from '../../core/http/tenant-api.ts';
import { RateLimit, TenantRules } from '../../core/job/tenant.ts';
import { readTenantLoads } from '../../queue/tenants/tenant-loads.ts';
import { TenantRuleStore } from '../../queue/tenants/tenant-rules.ts';
import { maySee } from '../auth/caller.ts';
import { route } from '../request/route.ts';
import type { Services } from '../services.ts';

const listTenants = route({
  method: 'get',
  path: '/v1/tenants',
  name: 'listTenants',
  tag: 'tenants',
  summary: 'Tenants that have rules of their own or jobs that wait or run',
  scope: 'read',
  forTenants: true,
  responses: { 200: { description: 'In the order of their names.', schema: TenantList } },
  handle: async ({ services, caller }) => {
    const all = await readTenants(services);
    return { status: 200, json: { items: all.filter(({ tenant }) => maySee(caller, tenant)) } };
  },
});

const setTenant = route({
  method: 'put',
  path: '/v1/tenants/:tenant',
  name: 'setTenant',
  tag: 'tenants',
  summary: 'Set the share and the limit of a tenant',
  description:
    'Replaces what was set before. Counts for jobs that start from now on; what runs goes on. The tenant `*` is every one without rules of its own.',
  scope: 'manage',
  params: TenantParams,
  body: TenantRules,
  responses: { 200: { description: 'As it stands.', schema: TenantResource } },
  handle: async ({ params: { tenant }, body, services }) => {
    const rules = await new TenantRuleStore(services.queues.connection).set(tenant, body);
    const found = (await readTenants(services)).find((each) => each.tenant === tenant);
    return { status: 200, json: found ?? { tenant, rules, waiting: 0, running: 0 } };
  },
});

const removeTenant = route({
  method: 'delete',
  path: '/v1/tenants/:tenant',
  name: 'removeTenant',
  tag: 'tenants',
  summary: 'Forget the rules of a tenant',
  description: 'Its jobs stay, and are shared out like those of others.',
  scope: 'manage',
  params: TenantParams,
  responses: { 204: { description: 'It has none of its own.' } },
  handle: async ({ params: { tenant }, services }) => {
    await new TenantRuleStore(services.queues.connection).remove(tenant);
    return { status: 204 };
  },
});

async function readTenants({ queues, tenants }: Services): Promise<TenantResource[]> {
  const [rules, loads] = await Promise.all([
    new TenantRuleStore(queues.connection).list(),
    queues.models().then((models) => readTenantLoads(queues.connection, models, tenants)),
  ]);
  const names = new Set([...rules.keys(), ...loads.map(({ tenant }) => tenant)]);
  return [...names].toSorted().map((tenant) => {
    const own = loads.filter((load) => load.tenant === tenant);
    return {
      tenant,
      rules: rules.get(tenant) ?? null,
      waiting: own.reduce((sum, { waiting }) => sum + waiting, 0),
      running: own.reduce((sum, { running }) => sum + running, 0),
    };
  });
}

const ANSWER = { 200: { description: 'As it stands.', schema: RateLimitResource } };

const getRateLimit = route({
  method: 'get',
  path: '/v1/models/:id/rate-limit',
  name: 'getRateLimit',
  tag: 'models',
  summary: 'How many jobs of a model may start in a time',
  scope: 'read',
  params: ModelParams,
  responses: ANSWER,
  errors: ['MODEL_UNKNOWN'],
  handle: async ({ params, services }) => {
    const queue = await services.queues.queueOf(params.id);
    const rateLimit = (await queue.rateLimit()) ?? null;
    return { status: 200, json: { model: queue.model, rateLimit } };
  },
});

const setRateLimit = route({
  method: 'put',
  path: '/v1/models/:id/rate-limit',
  name: 'setRateLimit',
  tag: 'models',
  summary: 'Limit how many jobs of a model start in a time, over all workers',
  description: 'Counts for jobs that start from now on.',
  scope: 'manage',
  params: ModelParams,
  body: RateLimit,
  responses: ANSWER,
  errors: ['MODEL_UNKNOWN'],
  handle: async ({ params, body, services }) => {
    const queue = await services.queues.queueOf(params.id);
    await queue.setRateLimit(body);
    return { status: 200, json: { model: queue.model, rateLimit: body } };
  },
});

const removeRateLimit = route({
  method: 'delete',
  path: '/v1/models/:id/rate-limit',
  name: 'removeRateLimit',
  tag: 'models',
  summary: 'End the rate limit of a model',
  scope: 'manage',
  params: ModelParams,
  responses: { 204: { description: 'It has none.' } },
  errors: ['MODEL_UNKNOWN'],
  handle: async ({ params, services }) => {
    const queue = await services.queues.queueOf(params.id);
    await queue.setRateLimit(undefined);
    return { status: 204 };
  },
});

export const tenantRoutes = [
  ...[listTenants, setTenant, removeTenant],
  ...[getRateLimit, setRateLimit, removeRateLimit],
];

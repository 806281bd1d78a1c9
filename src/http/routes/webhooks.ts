/** Webhooks: their deliveries, and the secrets that sign them. */

import { WavepoolError } from '../../core/errors.ts';
import { JobParams } from '../../core/http/api.ts';
import { BatchParams } from '../../core/http/batch-api.ts';
import {
  DeliveryList,
  DeliveryParams,
  DeliveryResource,
  RotateSecretRequest,
  SecretQuery,
  SecretResource,
} from '../../core/http/webhook-message.ts';
import { tenantFor } from '../auth/caller.ts';
import { assertOwnDelivery, ownBatch, ownJob } from '../auth/own-work.ts';
import { route } from '../request/route.ts';

const LOG = {
  200: { description: 'Oldest first: one for each time that it ended.', schema: DeliveryList },
};
const SECRETS = {
  200: { description: 'Newest first; each of them signs.', schema: SecretResource },
};

const listJobDeliveries = route({
  method: 'get',
  path: '/v1/jobs/:id/deliveries',
  name: 'listJobDeliveries',
  tag: 'webhooks',
  summary: "What became of a job's webhook",
  scope: 'read',
  forTenants: true,
  params: JobParams,
  responses: LOG,
  errors: ['JOB_NOT_FOUND'],
  handle: async ({ params: { id }, services, caller }) => {
    const { queue } = await ownJob(id, { services, caller });
    const items = await services.webhooks.deliveries.list({ kind: 'job', queue: queue.name, id });
    return { status: 200, json: { items } };
  },
});

const listBatchDeliveries = route({
  method: 'get',
  path: '/v1/batches/:id/deliveries',
  name: 'listBatchDeliveries',
  tag: 'webhooks',
  summary: "What became of a batch's webhook; its items have their own",
  scope: 'read',
  forTenants: true,
  params: BatchParams,
  responses: LOG,
  errors: ['BATCH_NOT_FOUND'],
  handle: async ({ params: { id }, services, caller }) => {
    await ownBatch(id, { services, caller });
    const items = await services.webhooks.deliveries.list({ kind: 'batch', id });
    return { status: 200, json: { items } };
  },
});

const getDelivery = route({
  method: 'get',
  path: '/v1/deliveries/:id',
  name: 'getDelivery',
  tag: 'webhooks',
  summary: 'One delivery with its latest attempts',
  scope: 'read',
  forTenants: true,
  params: DeliveryParams,
  responses: { 200: { description: 'As it stands.', schema: DeliveryResource } },
  errors: ['DELIVERY_NOT_FOUND'],
  handle: async ({ params: { id }, services, caller }) => {
    await assertOwnDelivery(id, { services, caller });
    return { status: 200, json: await services.webhooks.deliveries.get(id) };
  },
});

const redeliver = route({
  method: 'post',
  path: '/v1/deliveries/:id/redeliver',
  name: 'redeliver',
  tag: 'webhooks',
  summary: 'Send a delivery once more',
  description:
    'The same body under the same `webhook-id`, with all attempts. One that waits for its next attempt is sent now; one that is just being sent goes on.',
  scope: 'submit',
  forTenants: true,
  params: DeliveryParams,
  responses: { 202: { description: 'It is on its way.', schema: DeliveryResource } },
  errors: ['DELIVERY_NOT_FOUND'],
  handle: async ({ params: { id }, services, caller }) => {
    await assertOwnDelivery(id, { services, caller });
    return { status: 202, json: await services.webhooks.deliveries.redeliver(id) };
  },
});

const getSecret = route({
  method: 'get',
  path: '/v1/webhooks/secret',
  name: 'getWebhookSecret',
  tag: 'webhooks',
  summary: 'The secrets that sign deliveries',
  scope: 'manage',
  forTenants: true,
  query: SecretQuery,
  responses: SECRETS,
  description:
    "A tenant's key gets its own secret. The server's, which signs for tenants without one, is not for it.",
  handle: async ({ query, services, caller, res }) => {
    res.set('Cache-Control', 'no-store');
    const json = await services.webhooks.secrets.show(tenantFor(caller, query.tenant));
    // With the server's secret a tenant could sign for every other tenant that has none of its own.
    if (caller.tenant !== undefined && json.source !== 'tenant') {
      throw new WavepoolError('FORBIDDEN', 'the tenant has no secret of its own: rotate it');
    }
    return { status: 200, json };
  },
});

const rotateSecret = route({
  method: 'post',
  path: '/v1/webhooks/secret/rotate',
  name: 'rotateWebhookSecret',
  tag: 'webhooks',
  summary: 'Make a new secret; the one before stays valid for a while',
  scope: 'manage',
  forTenants: true,
  body: RotateSecretRequest,
  responses: SECRETS,
  handle: async ({ body, services, caller, res }) => {
    res.set('Cache-Control', 'no-store');
    const tenant = tenantFor(caller, body.tenant);
    return { status: 200, json: await services.webhooks.secrets.rotate(tenant, body.keepOldMs) };
  },
});

export const webhookRoutes = [
  listJobDeliveries,
  listBatchDeliveries,
  getDelivery,
  redeliver,
  getSecret,
  rotateSecret,
];

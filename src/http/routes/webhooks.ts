/** Webhooks: what became of their deliveries, and the secrets that sign them. */
import { JobParams } from '../../core/api.ts';
import { BatchParams } from '../../core/batch-api.ts';
import {
  DeliveryList,
  DeliveryParams,
  DeliveryResource,
  RotateSecretRequest,
  SecretQuery,
  SecretResource,
} from '../../core/webhook-message.ts';
import { route } from '../route.ts';

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
  params: JobParams,
  responses: LOG,
  errors: ['JOB_NOT_FOUND'],
  handle: async ({ params: { id }, services }) => {
    const { queue } = await services.queues.get(id);
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
  params: BatchParams,
  responses: LOG,
  errors: ['BATCH_NOT_FOUND'],
  handle: async ({ params: { id }, services }) => {
    await services.batches.get(id);
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
  params: DeliveryParams,
  responses: { 200: { description: 'As it stands.', schema: DeliveryResource } },
  errors: ['DELIVERY_NOT_FOUND'],
  handle: async ({ params, services }) => ({
    status: 200,
    json: await services.webhooks.deliveries.get(params.id),
  }),
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
  params: DeliveryParams,
  responses: { 202: { description: 'It is on its way.', schema: DeliveryResource } },
  errors: ['DELIVERY_NOT_FOUND'],
  handle: async ({ params, services }) => ({
    status: 202,
    json: await services.webhooks.deliveries.redeliver(params.id),
  }),
});

const getSecret = route({
  method: 'get',
  path: '/v1/webhooks/secret',
  name: 'getWebhookSecret',
  tag: 'webhooks',
  summary: 'The secrets that sign deliveries',
  scope: 'manage',
  query: SecretQuery,
  responses: SECRETS,
  handle: async ({ query, services, res }) => {
    res.set('Cache-Control', 'no-store');
    return { status: 200, json: await services.webhooks.secrets.show(query.tenant) };
  },
});

const rotateSecret = route({
  method: 'post',
  path: '/v1/webhooks/secret/rotate',
  name: 'rotateWebhookSecret',
  tag: 'webhooks',
  summary: 'Make a new secret; the one before stays valid for a while',
  scope: 'manage',
  body: RotateSecretRequest,
  responses: SECRETS,
  handle: async ({ body: { tenant, keepOldMs }, services, res }) => {
    res.set('Cache-Control', 'no-store');
    return { status: 200, json: await services.webhooks.secrets.rotate(tenant, keepOldMs) };
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

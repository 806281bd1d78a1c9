/** API keys. */

import { WavepoolError } from '../../core/errors.ts';
import {
  ApiKeyList,
  ApiKeyParams,
  ApiKeyRequest,
  apiKeyResource,
  CreatedApiKeyResource,
} from '../../core/http/api-key.ts';
import { route } from '../request/route.ts';

const createKey = route({
  method: 'post',
  path: '/v1/keys',
  name: 'createKey',
  tag: 'keys',
  summary: 'Make an API key',
  description:
    "The key is in this answer and nowhere else. It may have no scope that the caller's has not. With a `tenant` it is for that tenant's jobs, batches, uploads and schedules alone.",
  scope: 'manage',
  body: ApiKeyRequest,
  responses: { 201: { description: 'Made.', schema: CreatedApiKeyResource } },
  handle: async ({ body: { name, scopes, tenant }, services, caller, res }) => {
    const missing = scopes.filter((scope) => !caller.scopes.includes(scope));
    if (missing.length > 0) {
      throw new WavepoolError('FORBIDDEN', `the scope ${missing.join(', ')} is not the caller's`);
    }
    res.set('Cache-Control', 'no-store');
    const { record, key } = await services.keys.create(name, scopes, tenant);
    return { status: 201, json: { ...apiKeyResource(record), key } };
  },
});

const listKeys = route({
  method: 'get',
  path: '/v1/keys',
  name: 'listKeys',
  tag: 'keys',
  summary: 'API keys, without their secrets',
  scope: 'manage',
  responses: { 200: { description: 'Oldest first.', schema: ApiKeyList } },
  handle: async ({ services }) => {
    const items = (await services.keys.list()).map(apiKeyResource);
    return { status: 200, json: { items } };
  },
});

const revokeKey = route({
  method: 'delete',
  path: '/v1/keys/:id',
  name: 'revokeKey',
  tag: 'keys',
  summary: 'Make an API key worthless, with every login through it',
  scope: 'manage',
  params: ApiKeyParams,
  responses: { 204: { description: 'There is none of this id.' } },
  handle: async ({ params: { id }, services }) => {
    await services.keys.revoke(id);
    return { status: 204 };
  },
});

export const keyRoutes = [createKey, listKeys, revokeKey];

/** What is kept of an API key, and what it may be used for. */
import { z } from 'zod';
import { EVERY_OTHER_TENANT, TenantName } from '../job/tenant.ts';
import { apiSchemas } from '../openapi.ts';

/** `read` sees jobs and workers, `submit` adds, cancels and retries jobs, `manage` changes what serves them. */
export const ApiKeyScope = z.enum(['read', 'submit', 'manage']);
export type ApiKeyScope = z.infer<typeof ApiKeyScope>;

export const ApiKeyName = z.string().min(1).max(128).meta({ description: 'for people' });

/** Whoever has such a key sees and does what is this tenant's, and nothing else. */
export const ApiKeyTenant = TenantName.refine(
  (name) => name !== EVERY_OTHER_TENANT,
  "a key is one tenant's: * is none",
);

export const ApiKeyRecord = z.strictObject({
  id: z.string().regex(/^[0-9a-f]{16}$/),
  name: ApiKeyName,
  scopes: z.array(ApiKeyScope).min(1),
  /** Without one the key is for everything. */
  tenant: ApiKeyTenant.optional(),
  /** Of the secret part. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** Milliseconds since 1970. */
  createdAt: z.int().min(0),
});
export type ApiKeyRecord = z.infer<typeof ApiKeyRecord>;

export const ApiKeyRequest = z
  .strictObject({
    name: ApiKeyName.default('unnamed'),
    scopes: ApiKeyRecord.shape.scopes.default(['read', 'submit']),
    tenant: ApiKeyTenant.optional().meta({
      description: 'whose jobs, batches, uploads and schedules it is for; all when left out',
    }),
  })
  .register(apiSchemas, { id: 'ApiKeyRequest' });
export type ApiKeyRequestBody = z.input<typeof ApiKeyRequest>;

export const ApiKeyParams = ApiKeyRecord.pick({ id: true });

export const ApiKeyResource = ApiKeyRecord.pick({ id: true, name: true, scopes: true })
  .extend({ tenant: TenantName.nullable(), createdAt: z.iso.datetime() })
  .register(apiSchemas, { id: 'ApiKey' });
export type ApiKeyResource = z.infer<typeof ApiKeyResource>;

export const CreatedApiKeyResource = ApiKeyResource.extend({
  key: z.string().meta({ description: 'not shown again' }),
}).register(apiSchemas, { id: 'CreatedApiKey' });
export type CreatedApiKeyResource = z.infer<typeof CreatedApiKeyResource>;

export const ApiKeyList = z
  .strictObject({ items: z.array(ApiKeyResource) })
  .register(apiSchemas, { id: 'ApiKeyList' });

/** As whoever manages keys sees it. */
export function apiKeyResource(record: ApiKeyRecord): ApiKeyResource {
  const { id, name, scopes, tenant = null, createdAt } = record;
  return { id, name, scopes, tenant, createdAt: new Date(createdAt).toISOString() };
}

/** A page's login, kept in Redis. */
export const SessionRecord = z.strictObject({
  keyId: ApiKeyRecord.shape.id,
  /** What state-changing requests of the page must repeat. */
  csrfToken: z.string().min(1),
});
export type SessionRecord = z.infer<typeof SessionRecord>;

/** What is kept of an API key, and what it may be used for. */
import { z } from 'zod';

/** `read` sees jobs and workers, `submit` adds, cancels and retries jobs, `manage` changes what serves them. */
export const ApiKeyScope = z.enum(['read', 'submit', 'manage']);
export type ApiKeyScope = z.infer<typeof ApiKeyScope>;

export const ApiKeyRecord = z.strictObject({
  id: z.string().regex(/^[0-9a-f]{16}$/),
  /** For people. */
  name: z.string().min(1).max(128),
  scopes: z.array(ApiKeyScope).min(1),
  /** Of the secret part. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** Milliseconds since 1970. */
  createdAt: z.int().min(0),
});
export type ApiKeyRecord = z.infer<typeof ApiKeyRecord>;

/** A page's login, kept in Redis. */
export const SessionRecord = z.strictObject({
  keyId: ApiKeyRecord.shape.id,
  /** What state-changing requests of the page must repeat. */
  csrfToken: z.string().min(1),
});
export type SessionRecord = z.infer<typeof SessionRecord>;

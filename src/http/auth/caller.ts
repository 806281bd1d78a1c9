/** Who sends a request, and what that allows. */

import { WavepoolError } from '../../core/errors.ts';
import type { ApiKeyScope } from '../../core/http/api-key.ts';
import type { RouteScope } from '../../core/openapi.ts';

export interface Caller {
  /** `open` is anybody, on a loopback server without keys; `nobody` is a request to a public route. */
  readonly kind: 'key' | 'session' | 'open' | 'nobody';
  /** Tells callers apart, in logs and elsewhere. It holds no secret. */
  readonly id: string;
  readonly scopes: readonly ApiKeyScope[];
  /** Set for a tenant's key and for logins with it: only what belongs to this tenant exists for the caller. */
  readonly tenant?: string | undefined;
  /** Set for a session only. */
  readonly csrfToken?: string;
}

export const NOBODY: Caller = { kind: 'nobody', id: 'nobody', scopes: [] };
export const OPEN: Caller = { kind: 'open', id: 'open', scopes: ['read', 'submit', 'manage'] };

export interface RouteAccess {
  readonly scope: RouteScope;
  /** See `RouteDoc`. */
  readonly forTenants?: boolean | undefined;
}

/** @throws {WavepoolError} AUTH_REQUIRED, FORBIDDEN */
export function assertAllowed(caller: Caller, { scope, forTenants = false }: RouteAccess): void {
  if (scope === 'public') return;
  if (caller.tenant !== undefined && !forTenants) {
    throw new WavepoolError('FORBIDDEN', 'this is not for keys of a tenant');
  }
  if (caller.scopes.includes(scope)) return;
  if (caller.kind === 'nobody') {
    throw new WavepoolError('AUTH_REQUIRED', 'send an API key as Authorization: Bearer KEY');
  }
  throw new WavepoolError('FORBIDDEN', `the scope ${scope} is needed`);
}

/**
 * The tenant that a request is for: the caller's own, or else the one that the request names.
 * @throws {WavepoolError} FORBIDDEN when the request names another tenant than the caller's
 */
export function tenantFor(
  { tenant }: Caller,
  named: string | null | undefined,
): string | undefined {
  const wanted = named ?? undefined;
  if (tenant === undefined || wanted === undefined || wanted === tenant) return tenant ?? wanted;
  throw new WavepoolError('FORBIDDEN', `tenant: this key is for ${tenant}, not for ${wanted}`);
}

/** Whether the caller may see what belongs to this tenant. */
export function maySee({ tenant }: Caller, owner: string | undefined): boolean {
  return tenant === undefined || tenant === owner;
}

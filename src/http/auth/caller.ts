/** Who sends a request, and how it is known. */

import { WavepoolError } from '../../core/errors.ts';
import type { ApiKeyScope } from '../../core/http/api-key.ts';
import type { RouteScope } from '../../core/openapi.ts';

export interface Caller {
  /** `open`: no key exists and the server listens on loopback. `nobody`: on public routes. */
  readonly kind: 'key' | 'session' | 'open' | 'nobody';
  /** For logs and for telling callers apart; the secret is not in it. */
  readonly id: string;
  readonly scopes: readonly ApiKeyScope[];
  /** Of a tenant's key or its login: all else is not there for it. */
  readonly tenant?: string | undefined;
  /** Of a session. */
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
 * The tenant that a request is about: the caller's, else the one that it names.
 * @throws {WavepoolError} FORBIDDEN when it names another one than the caller's
 */
export function tenantFor(
  { tenant }: Caller,
  named: string | null | undefined,
): string | undefined {
  const wanted = named ?? undefined;
  if (tenant === undefined || wanted === undefined || wanted === tenant) return tenant ?? wanted;
  throw new WavepoolError('FORBIDDEN', `tenant: this key is for ${tenant}, not for ${wanted}`);
}

/** Whether what belongs to a tenant is there for the caller. */
export function mayKnow({ tenant }: Caller, owner: string | undefined): boolean {
  return tenant === undefined || tenant === owner;
}

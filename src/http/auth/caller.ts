/** Who sends a request, and how it is known. */
import type { ApiKeyScope } from '../../core/api-key.ts';
import { WavepoolError } from '../../core/errors.ts';
import type { RouteScope } from '../../core/openapi.ts';

export interface Caller {
  /** `open`: no key exists and the server listens on loopback. `nobody`: on public routes. */
  readonly kind: 'key' | 'session' | 'open' | 'nobody';
  /** For logs and for telling callers apart; the secret is not in it. */
  readonly id: string;
  readonly scopes: readonly ApiKeyScope[];
  /** Of a session. */
  readonly csrfToken?: string;
}

export const NOBODY: Caller = { kind: 'nobody', id: 'nobody', scopes: [] };
export const OPEN: Caller = { kind: 'open', id: 'open', scopes: ['read', 'submit', 'manage'] };

/** @throws {WavepoolError} AUTH_REQUIRED, FORBIDDEN */
export function assertAllowed(caller: Caller, scope: RouteScope): void {
  if (scope === 'public' || caller.scopes.includes(scope)) return;
  if (caller.kind === 'nobody') {
    throw new WavepoolError('AUTH_REQUIRED', 'send an API key as Authorization: Bearer KEY');
  }
  throw new WavepoolError('FORBIDDEN', `the scope ${scope} is needed`);
}

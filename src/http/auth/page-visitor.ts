/** Whether whoever opens a page has to log in first. */
import type { Request } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import type { Services } from '../services.ts';
import { authenticate } from './authenticate.ts';

/**
 * Where to log in, or undefined for a visitor who may read. A link from another site comes without the cookie of a login:
 * such a visitor gets the page, which holds no data, and whose script finds out.
 * @throws {WavepoolError} FORBIDDEN
 */
export async function loginAddress(req: Request, services: Services): Promise<string | undefined> {
  if (await mayRead(req, services)) return undefined;
  if (req.get('sec-fetch-site') === 'cross-site') return undefined;
  return `/login?next=${encodeURIComponent(req.originalUrl)}`;
}

async function mayRead(req: Request, services: Services): Promise<boolean> {
  try {
    const { scopes } = await authenticate(req, services);
    return scopes.includes('read');
  } catch (error) {
    if (error instanceof WavepoolError && error.code === 'AUTH_REQUIRED') return false;
    throw error;
  }
}

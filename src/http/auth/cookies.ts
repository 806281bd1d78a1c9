/** The one cookie there is: a page's login. */
import type { Request, Response } from 'express';

export const SESSION_COOKIE = 'wavepool_session';

export function readCookie(req: Request, name: string): string | undefined {
  for (const pair of (req.headers.cookie ?? '').split(';')) {
    const [key = '', value = ''] = pair.split('=', 2);
    if (key.trim() === name && value !== '') return value.trim();
  }
  return undefined;
}

/** A page of another site never sends it, and no script reads it. */
export function setSessionCookie(req: Request, res: Response, token: string): void {
  res.cookie(SESSION_COOKIE, token, {
    httpOnly: true,
    sameSite: 'strict',
    secure: req.secure,
    path: '/',
  });
}

export function clearSessionCookie(req: Request, res: Response): void {
  res.clearCookie(SESSION_COOKIE, {
    httpOnly: true,
    sameSite: 'strict',
    secure: req.secure,
    path: '/',
  });
}

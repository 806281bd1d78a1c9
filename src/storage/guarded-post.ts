/** Posts to an address that somebody else chose; see `public-address.ts`. It follows no redirect. */
import { request } from 'undici';
import { WavepoolError } from '../core/errors.ts';
import { AddressError, checkedAddress, pinnedTo, type ResolveName } from './public-address.ts';

export interface PostOptions {
  readonly allowedNetworks: readonly string[];
  /** The limit for the whole exchange, the answer included. */
  readonly timeoutMs: number;
  /** @defaultValue the system's resolver */
  readonly resolve?: ResolveName | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface PostAnswer {
  readonly status: number;
  /** The header `Retry-After`. */
  readonly retryAfter: string | undefined;
}

/** A short answer is read to its end, so that the receiver sees no broken connection. */
const MAX_ANSWER_BYTES = 16_384;

/**
 * @throws {WavepoolError} FORBIDDEN when the address may not be reached. Other failures throw the error of the system; an
 *   abort throws the signal's reason.
 */
export async function guardedPost(
  address: string,
  message: { readonly body: string; readonly headers: Readonly<Record<string, string>> },
  { allowedNetworks, timeoutMs, resolve, signal }: PostOptions,
): Promise<PostAnswer> {
  const late = AbortSignal.timeout(timeoutMs);
  const both = signal === undefined ? late : AbortSignal.any([signal, late]);
  try {
    return await post(new URL(address), message, { allowedNetworks, resolve, signal: both });
  } catch (error) {
    signal?.throwIfAborted();
    if (late.aborted) throw new Error(`no answer within ${timeoutMs} ms`, { cause: error });
    if (error instanceof AddressError && error.isForbidden) {
      throw new WavepoolError('FORBIDDEN', error.message, { cause: error });
    }
    throw error;
  }
}

async function post(
  url: URL,
  { body, headers }: Parameters<typeof guardedPost>[1],
  options: Parameters<typeof checkedAddress>[1],
): Promise<PostAnswer> {
  const { signal } = options;
  const agent = pinnedTo(await checkedAddress(url, options));
  try {
    const call = { method: 'POST', dispatcher: agent, signal, body, headers } as const;
    const answer = await request(url, call);
    const { 'retry-after': retryAfter } = answer.headers;
    // The status counts, even when the rest of the answer fails.
    await answer.body.dump({ limit: MAX_ANSWER_BYTES, signal }).catch(() => undefined);
    const isText = typeof retryAfter === 'string';
    return { status: answer.statusCode, retryAfter: isText ? retryAfter : undefined };
  } finally {
    await agent.destroy();
  }
}

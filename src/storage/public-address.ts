/**
 * Guards requests to addresses that somebody else chose, so that nobody can reach the network around this process through
 * it. A name is resolved once, every address is checked, and the connection goes to the address that was checked.
 */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Agent } from 'undici';

/** Returns all addresses of a name. */
export type ResolveName = (name: string) => Promise<readonly string[]>;

export interface AddressOptions {
  /** Networks that may be reached though they are not public, such as `10.0.0.0/8`. */
  readonly allowedNetworks: readonly string[];
  readonly signal: AbortSignal;
  /** @defaultValue the system's resolver */
  readonly resolve?: ResolveName | undefined;
}

/** The reason why no request is sent to an address. */
export class AddressError extends Error {
  override readonly name = 'AddressError';
  /** False when the same address may work later. */
  readonly isForbidden: boolean;

  constructor(message: string, isForbidden: boolean, options?: ErrorOptions) {
    super(message, options);
    this.isForbidden = isForbidden;
  }
}

/** @throws {AddressError}; the signal's reason */
export async function checkedAddress(url: URL, options: AddressOptions): Promise<string> {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new AddressError(url.protocol, true);
  }
  if (url.username !== '' || url.password !== '') {
    throw new AddressError('a URL with a password', true);
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const addresses = isIP(host) === 0 ? await addressesOf(host, options) : [host];
  const [address] = addresses;
  if (address === undefined) throw new AddressError(`${host} has no address`, false);
  // A name with a public and a private address is taken for an attack.
  if (!addresses.every((each) => isAllowed(each, options.allowedNetworks))) {
    throw new AddressError(`${host} is not a public address`, true);
  }
  return address;
}

async function addressesOf(
  name: string,
  { resolve = resolveName, signal }: AddressOptions,
): Promise<readonly string[]> {
  try {
    return await unlessAborted(resolve(name), signal);
  } catch (error) {
    signal.throwIfAborted();
    throw new AddressError(`${name} cannot be resolved`, false, { cause: error });
  }
}

/** The system's resolver cannot be interrupted. After an abort it goes on, and its result is not used. */
function unlessAborted<Result>(call: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(new Error('aborted', { cause: signal.reason }));
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    call.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

async function resolveName(name: string): Promise<string[]> {
  return (await lookup(name, { all: true, verbatim: true })).map(({ address }) => address);
}

/** Allows addresses of the public internet, and those of networks in the settings. */
export function isAllowed(address: string, allowedNetworks: readonly string[]): boolean {
  if (!ipaddr.isValid(address)) return false;
  // An IPv4 address that is written as IPv6 is treated as IPv4.
  const parsed = ipaddr.process(address);
  if (parsed.range() === 'unicast') return true;
  return allowedNetworks.some((network) => {
    const [base, bits] = ipaddr.parseCIDR(network);
    return base.kind() === parsed.kind() && parsed.match(base, bits);
  });
}

/** Connects to this address, even if the name resolves to another one a moment later. TLS still checks the name. */
export function pinnedTo(address: string): Agent {
  const family = isIP(address);
  return new Agent({
    connect: {
      lookup: (_name, options, tell) => {
        if (options.all) tell(null, [{ address, family }]);
        else tell(null, address, family);
      },
    },
  });
}

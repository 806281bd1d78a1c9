/** A `Download` for every kind of source, with the settings of this machine. */
import type { Download } from './download.ts';
import { HttpsClient } from './https-client.ts';
import { npmDownload } from './npm-download.ts';
import type { Environment } from './npm-settings.ts';
import { pypiDownload } from './pypi-download.ts';
import { huggingFaceDownload, urlDownload } from './url-download.ts';

/** @param directory where a project's .npmrc is looked for */
export function sourceDownload(environment: Environment, directory: string): Download {
  const npm = npmDownload(environment, directory);
  return async (source, folder, options) => {
    if (source.kind === 'npm') {
      await npm(source, folder, options);
      return;
    }
    await using client = new HttpsClient({ environment });
    switch (source.kind) {
      case 'pypi':
        return await pypiDownload(environment, client)(source, folder, options);
      case 'huggingface':
        return await huggingFaceDownload(environment, client)(source, folder, options);
      case 'url':
        return await urlDownload(client)(source, folder, options);
      default:
        return source satisfies never;
    }
  };
}

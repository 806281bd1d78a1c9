/**
 * The files that the server's own pages load. Their address contains a hash of all of them, and modules import each other by
 * relative addresses. So browsers can store the files for ever, and never mix those of two versions.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { FileSet } from './file-set.ts';

const FOLDER = fileURLToPath(new URL('./assets/', import.meta.url));

const IMPORTS = /^(?:import .*|\}) from '\.\/([a-z-]+\.js)';$/gm;

export const ASSETS = new FileSet(FOLDER);

export const ASSETS_BUILD = hashOf(ASSETS.names);

function hashOf(names: readonly string[]): string {
  const hash = createHash('sha256');
  for (const name of names) hash.update(name).update(readFileSync(FOLDER + name));
  return hash.digest('hex').slice(0, 12);
}

export function assetUrl(name: string): string {
  return `/assets/${ASSETS_BUILD}/${name}`;
}

/** A module and all modules that it imports, directly or not. The browser fetches them all at once. */
export function modulesOf(name: string): readonly string[] {
  const found = new Set([name]);
  // The loop also visits the modules that it adds to the set.
  for (const module of found) {
    for (const [, imported = ''] of readFileSync(FOLDER + module, 'utf8').matchAll(IMPORTS))
      found.add(imported);
  }
  return [...found];
}

/** Checks paths in requests: a path must lead into an input root, after all symbolic links were followed. */
import { realpath, stat } from 'node:fs/promises';
import { dirname, isAbsolute, relative, sep } from 'node:path';
import { WavepoolError } from '../../core/errors.ts';

/**
 * Returns the real path of an input.
 * @param roots real paths
 * @throws {WavepoolError} INPUT_FORBIDDEN, whether or not there is such a file outside; INPUT_NOT_FOUND
 */
export async function resolveAllowedPath(path: string, roots: readonly string[]): Promise<string> {
  const real = await resolveAllowed(path, roots);
  if (!(await stat(real)).isDirectory()) return real;
  throw new WavepoolError('INPUT_NOT_FOUND', `${path} is a directory`);
}

/**
 * Returns the real path of a folder. Symbolic links in it may still lead outside.
 * @param roots real paths
 * @throws {WavepoolError} INPUT_FORBIDDEN, whether or not there is such a folder outside; INPUT_NOT_FOUND
 */
export async function resolveAllowedFolder(
  path: string,
  roots: readonly string[],
): Promise<string> {
  const real = await resolveAllowed(path, roots);
  if ((await stat(real)).isDirectory()) return real;
  throw new WavepoolError('INPUT_NOT_FOUND', `${path} is no directory`);
}

async function resolveAllowed(path: string, roots: readonly string[]): Promise<string> {
  if (roots.length === 0) {
    throw new WavepoolError('INPUT_FORBIDDEN', 'this server has no input root; send the file');
  }
  if (!isAbsolute(path) || path.includes('\0')) {
    throw new WavepoolError('INVALID_REQUEST', 'path: it must be absolute');
  }
  const inside = (real: string): boolean => roots.some((root) => isInside(real, root));
  const real = await realpath(path).catch(() => undefined);
  if (real !== undefined && inside(real)) return real;
  // The answer for a path outside of the roots does not tell whether it exists.
  if (real === undefined && inside(await nearestFolder(path))) {
    throw new WavepoolError('INPUT_NOT_FOUND', path);
  }
  throw new WavepoolError('INPUT_FORBIDDEN', path);
}

/** The real path of the deepest folder above the path that exists. */
async function nearestFolder(path: string): Promise<string> {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const real = await realpath(folder).catch(() => undefined);
    if (real !== undefined) return real;
    if (folder === dirname(folder)) return folder;
  }
}

function isInside(path: string, root: string): boolean {
  const way = relative(root, path);
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/** Which files some process is still writing, where the system tells (Linux, for processes of the same user). */
import { readdir, readFile, readlink, realpath } from 'node:fs/promises';
import path from 'node:path';

/** The bits of the open flags that tell reading (0) from writing. */
const ACCESS_MODE = 0o3;

/** Those of `paths` that are known to be open for writing. */
export async function filesBeingWritten(paths: readonly string[]): Promise<ReadonlySet<string>> {
  const processes = (await namesIn('/proc')).filter((name) => /^\d+$/.test(name));
  if (processes.length === 0) return new Set();
  const realPaths = new Map<string, string>();
  for (const one of paths) realPaths.set(one, await realpath(one).catch(() => one));
  const wanted = new Set(realPaths.values());
  const written = new Set<string>();
  for (const pid of processes) {
    const folder = path.join('/proc', pid);
    for (const descriptor of await namesIn(path.join(folder, 'fd'))) {
      const target = await readlink(path.join(folder, 'fd', descriptor)).catch(() => '');
      if (wanted.has(target) && (await isForWriting(path.join(folder, 'fdinfo', descriptor))))
        written.add(target);
    }
  }
  return new Set(paths.filter((one) => written.has(realPaths.get(one) ?? one)));
}

/** Processes come and go, and those of others are closed to us. */
async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

async function isForWriting(infoPath: string): Promise<boolean> {
  const info = await readFile(infoPath, 'utf8').catch(() => '');
  const [, flags = '0'] = /^flags:\s*([0-7]+)/m.exec(info) ?? [];
  return (Number.parseInt(flags, 8) & ACCESS_MODE) !== 0;
}

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

/** Tells the parent process which packages a process imports. */
const LOADER = `
  import { writeSync } from 'node:fs';
  export async function load(url, context, next) {
    const name = /node_modules\\/((?:@[^/]+\\/)?[^/]+)\\//.exec(url)?.[1];
    if (name !== undefined) writeSync(2, 'imported ' + name + '\\n');
    return next(url, context);
  }`;

/** Imports a built entry in a fresh process; tells the addons and packages that it loaded, and what it exports. */
function importEntry(entry: string) {
  const loader = `data:text/javascript,${encodeURIComponent(LOADER)}`;
  const script = `
    const { register } = await import('node:module');
    register(${JSON.stringify(loader)});
    const exported = Object.keys(await import(${JSON.stringify(entry)}));
    const addons = process.report.getReport().sharedObjects.filter((file) => file.includes('addon'));
    console.log(JSON.stringify({ exported, addons }));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    encoding: 'utf8',
  });
  if (stdout === '') throw new Error(`${entry} could not be imported: ${stderr}`);
  const imported = [...stderr.matchAll(/^imported (.+)$/gm)].map(([, name = '']) => name);
  const told = JSON.parse(stdout) as { exported: string[]; addons: string[] };
  return { ...told, packages: [...new Set(imported)].toSorted() };
}

describe('the entries of the package', () => {
  test('`wavepool` is for producers and loads no native code', () => {
    const { exported, addons } = importEntry('wavepool');
    expect(exported).toEqual(
      expect.arrayContaining(['AudioQueue', 'runDirectory', 'WavepoolError']),
    );
    expect(addons).toEqual([]);
  });

  test('`wavepool/worker` runs models, and loads the addon only with the first use', () => {
    const { exported, addons } = importEntry('wavepool/worker');
    expect(exported).toEqual(expect.arrayContaining(['AudioWorker', 'NativeEngine', 'Supervisor']));
    expect(addons).toEqual([]);
  });

  test('`wavepool/client` is for callers of a server: it loads no Redis client, no queue and no addon', () => {
    const { exported, addons, packages } = importEntry('wavepool/client');
    expect(exported).toEqual(expect.arrayContaining(['WavepoolClient', 'WavepoolError']));
    expect(addons).toEqual([]);
    expect(packages).toEqual(['zod']);
    expect(importEntry('wavepool').packages).toEqual(expect.arrayContaining(['bullmq', 'ioredis']));
  });

  test('nothing else of the package can be imported', () => {
    expect(() => importEntry('wavepool/dist/src/core/errors.js')).toThrow('could not be imported');
  });
});

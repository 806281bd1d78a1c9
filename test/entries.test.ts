import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

/** Imports a built entry in a fresh process and tells which addons it loaded and what it exports. */
function importEntry(entry: string) {
  const script = `
    const exported = Object.keys(await import(${JSON.stringify(entry)}));
    const addons = process.report.getReport().sharedObjects.filter((file) => file.includes('addon'));
    console.log(JSON.stringify({ exported, addons }));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    encoding: 'utf8',
  });
  if (stdout === '') throw new Error(`${entry} could not be imported: ${stderr}`);
  return JSON.parse(stdout) as { exported: string[]; addons: string[] };
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

  test('nothing else of the package can be imported', () => {
    expect(() => importEntry('wavepool/dist/src/core/errors.js')).toThrow('could not be imported');
  });
});

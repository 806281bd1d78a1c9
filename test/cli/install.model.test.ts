/** What a user gets: the packages of a release, installed in an empty folder, transcribe without anything being built. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { list } from 'tar';
import { expect, test } from 'vitest';
import { readConfig } from '../../src/core/config.ts';
import { builtAddonPath } from '../../src/engine/binding.ts';
import { temporaryFolder } from '../support/redis.ts';

const run = promisify(execFile);
const ROOT = path.resolve(import.meta.dirname, '../..');
const SPEECH = path.join(ROOT, 'test/fixtures/speech/jfk.mp3');

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly scripts?: unknown;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Of one file in a package. */
async function readPacked(tarball: string, name: string): Promise<string> {
  const chunks: Buffer[] = [];
  await list({
    file: tarball,
    filter: (entry) => entry === `package/${name}`,
    onReadEntry: (entry) => entry.on('data', (chunk: Buffer) => chunks.push(chunk)),
  });
  return Buffer.concat(chunks).toString('utf8');
}

test.skipIf(!existsSync(builtAddonPath('addon.node')))(
  'the packages of a release, installed without install scripts and without a network, transcribe',
  async () => {
    await using folder = await temporaryFolder();
    const at = (...names: string[]) => path.join(folder.path, ...names);
    await run(process.execPath, ['scripts/release.mjs', '--no-build', '--out', at('packages')], {
      cwd: ROOT,
    });
    const tarballs = readdirSync(at('packages')).map((name) => at('packages', name));
    expect(tarballs).toHaveLength(2);
    const dependencies: Record<string, string> = {};
    const packages: Record<string, unknown> = {};
    for (const file of tarballs) {
      const manifest: Manifest = JSON.parse(await readPacked(file, 'package.json'));
      expect(manifest.scripts).toBeUndefined();
      for (const version of Object.values(manifest.dependencies ?? {}))
        expect(version).toMatch(/^\d+\.\d+\.\d+$/);
      const integrity = `sha512-${createHash('sha512').update(readFileSync(file)).digest('base64')}`;
      dependencies[manifest.name] = `file:${file}`;
      packages[`node_modules/${manifest.name}`] = {
        ...manifest,
        resolved: `file:${file}`,
        integrity,
      };
      const pinned = await readPacked(file, 'npm-shrinkwrap.json');
      if (pinned === '') continue;
      const lock: { packages: Record<string, object> } = JSON.parse(pinned);
      for (const [where, entry] of Object.entries(lock.packages))
        if (where !== '') packages[where] = entry;
    }
    mkdirSync(at('home'));
    mkdirSync(at('project'));
    const write = (name: string, value: unknown) =>
      writeFileSync(at('project', name), JSON.stringify(value));
    write('package.json', { private: true, dependencies });
    // Without it npm would ask a registry about versions, though every file is in its cache.
    write('package-lock.json', {
      lockfileVersion: 3,
      requires: true,
      packages: { '': { dependencies }, ...packages },
    });
    const { stdout: cache } = await run('npm', ['config', 'get', 'cache']);
    const { PATH = '' } = process.env;
    const env = {
      PATH,
      HOME: at('home'),
      WAVEPOOL_MODELS_DIR: readConfig().modelsDir,
      npm_config_cache: cache.trim(),
      npm_config_update_notifier: 'false',
    };
    const options = { cwd: at('project'), env };
    const flags = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund'];
    await run('npm', ['ci', ...flags], options);
    const wavepool = at('project', 'node_modules/.bin/wavepool');
    const { stdout } = await run(wavepool, ['run', SPEECH, '--out', at('out'), '--json'], options);
    expect(JSON.parse(stdout)).toMatchObject({ done: 1, failed: [] });
    expect(readFileSync(at('out', 'jfk.txt'), 'utf8')).toMatch(
      /ask what you can do for your country/i,
    );
    // Everything that it keeps is where the user's things are.
    expect(existsSync(at('home', '.local/share/wavepool/results'))).toBe(true);
  },
);

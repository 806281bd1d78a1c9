/**
 * Makes the packages of a release as tarballs in a folder, and publishes nothing.
 *   node scripts/release.mjs [--out FOLDER] [--no-build]
 *     wavepool-VERSION.tgz                  the product: compiled TypeScript, C++ sources, every dependency pinned
 *     wavepool-PLATFORM-ARCH-VERSION.tgz    the native addon that was compiled on this machine
 *   --no-build   packs dist/ and build/release as they are
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { ROOT, run } from './setup.mjs';

const ADDON = path.join(ROOT, 'build/release/Release/addon.node');
/** What npm takes along whatever `files` says. */
const ALWAYS = ['README.md', 'LICENSE', 'NOTICE'];
/** Only for those who work on the product. */
const NOT_FOR_USERS = ['scripts', 'devDependencies'];

const readJson = (file) => JSON.parse(readFileSync(path.join(ROOT, file), 'utf8'));
const writeJson = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);

const { values: options } = parseArgs({
  options: {
    out: { type: 'string', default: path.join(ROOT, 'build/packages') },
    'no-build': { type: 'boolean', default: false },
  },
});

const manifest = readJson('package.json');
const { version, license } = manifest;
const target = `${process.platform}-${process.arch}`;
const addonPackage = `@wavepool/${target}`;

/** glibc's is the only C library that the addon is compiled for on Linux. */
function platformManifest() {
  return {
    name: addonPackage,
    version,
    description: `Wavepool's native addon for ${target}${process.arch === 'x64' ? ' (x86-64-v3)' : ''}.`,
    license,
    os: [process.platform],
    cpu: [process.arch],
    ...(process.platform === 'linux' ? { libc: ['glibc'] } : {}),
    files: ['addon.node', 'NOTICE'],
  };
}

/** The lock without what only developers use. */
function usedPackages() {
  const { packages } = readJson('package-lock.json');
  return Object.entries(packages).filter(([where, { dev }]) => where !== '' && !dev);
}

/**
 * What a user's npm reads. No scripts: installing runs none of ours. What the product names itself is the very version that it
 * was tested with, for npm reads a shrinkwrap only of packages that come from a registry.
 */
function productManifest() {
  const shipped = Object.entries(manifest).filter(([member]) => !NOT_FOR_USERS.includes(member));
  const versions = new Map(usedPackages().map(([where, entry]) => [where, entry.version]));
  const dependencies = Object.fromEntries(
    Object.keys(manifest.dependencies).map((name) => [name, versions.get(`node_modules/${name}`)]),
  );
  return {
    ...Object.fromEntries(shipped),
    dependencies,
    optionalDependencies: { ...manifest.optionalDependencies, [addonPackage]: version },
    // npm packs it only when it is named.
    files: [...manifest.files, 'npm-shrinkwrap.json'],
  };
}

/** Everything that the product runs on, pinned with its hash. */
function shrinkwrap() {
  const { packages: _, ...lock } = readJson('package-lock.json');
  const pinned = usedPackages().map(([where, entry]) => {
    const name = where.slice(where.lastIndexOf('node_modules/') + 'node_modules/'.length);
    const file = `${name.slice(name.lastIndexOf('/') + 1)}-${entry.version}.tgz`;
    // Whoever uses another registry has npm put its name in place of this one.
    return [where, { resolved: `https://registry.npmjs.org/${name}/-/${file}`, ...entry }];
  });
  return { ...lock, packages: { '': productManifest(), ...Object.fromEntries(pinned) } };
}

function pack(folder, out) {
  const { status, stdout, stderr } = spawnSync(
    'npm',
    ['pack', folder, '--pack-destination', out, '--ignore-scripts', '--json'],
    { cwd: out, encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(stderr);
  const [{ filename, size, entryCount, integrity }] = JSON.parse(stdout);
  console.log(`${path.join(out, filename)}  ${(size / 1e6).toFixed(1)} MB, ${entryCount} files`);
  console.log(`  ${integrity}`);
}

function stageProduct(folder) {
  for (const entry of [...manifest.files.filter((name) => !name.startsWith('!')), ...ALWAYS]) {
    cpSync(path.join(ROOT, entry), path.join(folder, entry), { recursive: true });
  }
  writeJson(path.join(folder, 'package.json'), productManifest());
  writeJson(path.join(folder, 'npm-shrinkwrap.json'), shrinkwrap());
}

function stageAddon(folder) {
  for (const name of ['LICENSE', 'NOTICE']) cpSync(path.join(ROOT, name), path.join(folder, name));
  writeFileSync(
    path.join(folder, 'README.md'),
    `# ${addonPackage}\n\nThe native addon of [wavepool](https://www.npmjs.com/package/wavepool), compiled for ${target}.\n`,
  );
  cpSync(ADDON, path.join(folder, 'addon.node'), { dereference: true });
  // What only debuggers read is a fifth of the file.
  spawnSync('strip', [
    process.platform === 'darwin' ? '-x' : '--strip-unneeded',
    path.join(folder, 'addon.node'),
  ]);
  writeJson(path.join(folder, 'package.json'), platformManifest());
}

if (!options['no-build']) {
  // What a source that is gone was once compiled to is not part of the release.
  rmSync(path.join(ROOT, 'dist'), { recursive: true, force: true });
  run(process.execPath, ['scripts/build-native.mjs']);
  run(process.execPath, ['scripts/build.mjs']);
}
for (const needed of [ADDON, path.join(ROOT, 'dist/src/cli/main.js')])
  if (!existsSync(needed)) throw new Error(`${needed} is missing: run without --no-build`);

const out = path.resolve(options.out);
mkdirSync(out, { recursive: true });
const staging = mkdtempSync(path.join(tmpdir(), 'wavepool-release-'));
try {
  for (const [name, stage] of [
    ['product', stageProduct],
    ['addon', stageAddon],
  ]) {
    const folder = path.join(staging, name);
    mkdirSync(folder);
    stage(folder);
    pack(folder, out);
  }
} finally {
  rmSync(staging, { recursive: true, force: true });
}

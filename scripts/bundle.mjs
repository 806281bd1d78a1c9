/**
 * Joins the programs of dist/ with the code that they load: some 400 modules become a few files, which takes Node a third of the
 * time to read. The library's own entries stay as tsc writes them.
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'vite';
import { ROOT } from './setup.mjs';

/** The programs, by the names of their files in dist/. Each bundle replaces the file that tsc wrote. */
const PROGRAMS = {
  'src/cli/main': 'src/cli/main.ts',
  'workers/audio-worker': 'workers/audio-worker.ts',
  'workers/tuning-worker': 'workers/tuning-worker.ts',
  'workers/validation-worker': 'workers/validation-worker.ts',
};
/** The folder in dist/ for code that the programs share or load later. */
const CHUNKS = 'src/chunks';
/** The packages that every command and worker loads. All others stay packages, which are loaded when they are needed. */
const JOINED = ['bullmq', 'cli-progress', 'commander', 'ioredis', 'picocolors', 'pino', 'zod'];

/** Overwrites the programs in dist/, and writes down the licenses of the packages that are in them. */
export async function bundle() {
  const { dependencies } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
  const external = Object.keys(dependencies).filter((name) => !JOINED.includes(name));
  const { output } = await build({
    root: ROOT,
    configFile: false,
    logLevel: 'error',
    publicDir: false,
    // msgpackr-extract is optional native code of a dependency, which is looked for when the program runs.
    ssr: { noExternal: true, external: [...external, 'msgpackr-extract'], target: 'node' },
    build: {
      ssr: true,
      outDir: 'dist',
      emptyOutDir: false,
      copyPublicDir: false,
      target: 'node20',
      minify: false,
      rolldownOptions: {
        input: PROGRAMS,
        output: {
          entryFileNames: '[name].js',
          chunkFileNames: `${CHUNKS}/[name].js`,
        },
      },
    },
  });
  // The maps belong to the files that have been replaced.
  for (const program of Object.keys(PROGRAMS))
    rmSync(path.join(ROOT, `dist/${program}.js.map`), { force: true });
  removeOthers(new Set(output.map(({ fileName }) => path.basename(fileName))));
  writeLicenses(output.flatMap(({ moduleIds = [] }) => moduleIds));
}

/** Removes chunks of earlier builds. */
function removeOthers(written) {
  const folder = path.join(ROOT, 'dist', CHUNKS);
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) {
    if (name.endsWith('.js') && !written.has(name)) rmSync(path.join(folder, name));
  }
}

/** Writes the licenses of the joined packages beside the chunks. */
function writeLicenses(moduleIds) {
  const folders = new Set();
  for (const id of moduleIds) {
    const [folder] = /^.*\/node_modules\/(@[^/]+\/)?[^/]+(?=\/)/.exec(id) ?? [];
    if (folder !== undefined) folders.add(folder);
  }
  const texts = [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(
      readFileSync(path.join(folder, 'package.json'), 'utf8'),
    );
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const text = file === undefined ? '' : `\n${readFileSync(path.join(folder, file), 'utf8')}`;
    return `${name} ${version} (${license})\n${text}`;
  });
  writeFileSync(path.join(ROOT, 'dist', CHUNKS, 'LICENSES.txt'), texts.join('\n----\n\n'));
}

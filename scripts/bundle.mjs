/**
 * Joins the programs of dist/ with the code that they load: some 400 modules become a few files, which takes Node a third of the
 * time to read. The library's own entries stay as tsc writes them.
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'vite';
import { ROOT } from './setup.mjs';

/** Each replaces what tsc has written in its place. */
const PROGRAMS = {
  'src/cli/main': 'src/cli/main.ts',
  'workers/audio-worker': 'workers/audio-worker.ts',
  'workers/tuning-worker': 'workers/tuning-worker.ts',
  'workers/validation-worker': 'workers/validation-worker.ts',
};
/** Beside the code that is not in them. */
const CHUNKS = 'src/chunks';
/** What every command and worker loads. Everything else stays a package, and is loaded when it is needed. */
const JOINED = ['bullmq', 'cli-progress', 'commander', 'ioredis', 'picocolors', 'pino', 'zod'];

/** Overwrites the programs in dist/, and tells which packages are in them. */
export async function bundle() {
  const { dependencies } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
  const external = Object.keys(dependencies).filter((name) => !JOINED.includes(name));
  const { output } = await build({
    root: ROOT,
    configFile: false,
    logLevel: 'error',
    publicDir: false,
    // Optional native code of a dependency: looked for when the program runs.
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
  // Of what has been replaced.
  for (const program of Object.keys(PROGRAMS))
    rmSync(path.join(ROOT, `dist/${program}.js.map`), { force: true });
  removeOthers(new Set(output.map(({ fileName }) => path.basename(fileName))));
  writeLicenses(output.flatMap(({ moduleIds = [] }) => moduleIds));
}

function removeOthers(written) {
  const folder = path.join(ROOT, 'dist', CHUNKS);
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) {
    if (name.endsWith('.js') && !written.has(name)) rmSync(path.join(folder, name));
  }
}

/** Packages that are joined go with their licenses. */
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

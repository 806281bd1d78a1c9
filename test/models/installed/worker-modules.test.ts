/** Which modules a worker process can reach: it finds installed models, and nothing in it gets or makes one. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

/** The rooms of src/models that a worker process may load. */
const ALLOWED = ['src/models/catalogue', 'src/models/installed', 'src/models/evidence'];
/** Packages that only downloads and conversions need. */
const WORKSHOP_PACKAGES = ['pacote', 'protobufjs', 'tar'];

const STATIC = /^(?:import|export)\s(?!type\b)(?:[^;'"]*\bfrom\s*)?['"]([^'"]+)['"]/gm;
const DYNAMIC = /\bimport\(\s*['"]([^'"]+)['"]\s*\)/g;

interface Reached {
  /** Relative to the working directory. */
  readonly files: readonly string[];
  /** Every import that is no file, such as `node:fs`, `bullmq` or `protobufjs/light.js`. */
  readonly packages: readonly string[];
}

/** Follows the imports that are left when types are erased. */
function reachedFrom(entry: string, patterns: readonly RegExp[]): Reached {
  const packages = new Set<string>();
  const files = new Set([entry]);
  for (const file of files) {
    const text = readFileSync(file, 'utf8');
    for (const [, target = ''] of patterns.flatMap((each) => [...text.matchAll(each)])) {
      const place = path.join(path.dirname(file), target);
      if (!target.startsWith('.')) packages.add(target);
      // Comments of bundled packages name files that are not there.
      else if (existsSync(place)) files.add(place);
    }
  }
  return { files: [...files], packages: [...packages] };
}

const modelFilesIn = ({ files }: Reached) =>
  files.filter((file) => file.startsWith('src/models/') && !ALLOWED.includes(path.dirname(file)));

const workshopPackagesIn = ({ packages }: Reached) =>
  packages.filter((name) => WORKSHOP_PACKAGES.some((each) => name.split('/')[0] === each));

test('a worker process reaches no code that downloads, converts or quantizes models', () => {
  const reached = reachedFrom('workers/audio-worker.ts', [STATIC, DYNAMIC]);
  expect(reached.files).toContain('src/models/installed/installed-models.ts');
  expect(modelFilesIn(reached)).toEqual([]);
  expect(workshopPackagesIn(reached)).toEqual([]);
});

test('`wavepool/worker` loads such code only when a model is pulled or imported', () => {
  const loaded = reachedFrom('src/worker.ts', [STATIC]);
  const late = ['src/models/store/model-store.ts', 'src/models/store/pull-lock.ts'];
  expect(modelFilesIn(loaded).toSorted()).toEqual(late);
  expect(workshopPackagesIn(loaded)).toEqual([]);
  // The same search finds it where it may be.
  const reachable = reachedFrom('src/worker.ts', [STATIC, DYNAMIC]);
  expect(reachable.files).toContain('src/models/convert/moonshine.ts');
  expect(workshopPackagesIn(reachable)).toContain('protobufjs/light.js');
});

const BUNDLE = 'dist/workers/audio-worker.js';

/** Messages of code that gets or makes models, which stand in the bundles as they are written. */
const WORKSHOP_MESSAGES = [
  ['src/models/download/https-client.ts', 'it redirects to an address without encryption'],
  ['src/models/files/zip-reader.ts', 'is no zip archive'],
  ['src/models/files/onnx-reader.ts', 'an ONNX file without a graph'],
  ['src/models/convert/quantize-whisper.ts', 'is quantized already'],
  ['src/models/store/import-format.ts', 'no model that is understood here'],
] as const;

test.skipIf(!existsSync(BUNDLE))('the built worker has none of it in its chunks either', () => {
  const textOf = ({ files }: Reached) => files.map((file) => readFileSync(file, 'utf8')).join('\n');
  const worker = reachedFrom(BUNDLE, [STATIC, DYNAMIC]);
  const commands = textOf(reachedFrom('dist/src/cli/main.js', [STATIC, DYNAMIC]));
  const inWorker = textOf(worker);
  for (const [source, message] of WORKSHOP_MESSAGES) {
    expect([source, readFileSync(source, 'utf8').includes(message)]).toEqual([source, true]);
    expect([source, commands.includes(message)]).toEqual([source, true]);
    expect([source, inWorker.includes(message)]).toEqual([source, false]);
  }
  expect(workshopPackagesIn(worker)).toEqual([]);
});

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const FAMILIES = ['native/models/moonshine', 'native/models/silero_vad', 'native/models/whisper'];

/** What each part of the tree may import besides itself: the table in docs/architecture.md. */
const MAY_IMPORT: Record<string, string[]> = {
  'src/core': [],
  'src/queue': ['src/core'],
  'src/storage': ['src/core'],
  'src/tracing': ['src/core'],
  'src/runtime': ['src/core'],
  'src/engine': ['src/core', 'src/runtime'],
  'src/models': ['src/core', 'src/runtime', 'src/engine'],
  'src/bulk': ['src/core', 'src/queue', 'src/storage'],
  'src/http': ['src/core', 'src/queue', 'src/storage', 'src/bulk'],
  'src/client': ['src/core'],
  'src/worker': ['src/core', 'src/queue', 'src/storage', 'src/runtime', 'src/engine', 'src/models'],
  'src/index.ts': ['src/core', 'src/queue', 'src/storage', 'src/bulk', 'src/client'],
  'src/client.ts': ['src/core', 'src/client'],
  'src/worker.ts': ['src'],
  'src/cli': ['src'],
  workers: ['src'],
  'native/framework': [],
  'native/audio': ['native/framework'],
  'native/kernels': ['native/framework'],
  'native/models': ['native/framework', ...FAMILIES],
  'native/binding': ['native/framework', 'native/audio', 'native/models'],
  'native/tests': ['native'],
  'native/bench': ['native'],
  ...Object.fromEntries(
    FAMILIES.map((family) => [family, ['native/framework', 'native/kernels', 'native/audio']]),
  ),
};

/** Names that only some parts may write: third-party imports (with their sub-paths) and process.env. */
const FENCED: [RegExp, string[]][] = [
  [/^bullmq(\/|$)/, ['src/queue', 'src/worker']],
  [/^ioredis(\/|$)/, ['src/queue']],
  [/^(express|helmet|busboy|prom-client)(\/|$)|^@bull-board\//, ['src/http']],
  [/^@opentelemetry\/|^bullmq-otel$/, ['src/tracing']],
  [/^standardwebhooks$/, ['src/worker']],
  [/^undici(\/|$)/, ['src/storage', 'src/models']],
  [/^ipaddr\.js(\/|$)/, ['src/storage']],
  [/^zod(\/|$)/, ['src/core']],
  [/^@aws-sdk\//, ['src/storage']],
  [/^(pacote|protobufjs)(\/|$)/, ['src/models']],
  [/\.node$/, ['src/engine']],
  [
    /^(ggml.*|gguf)\.h$/,
    ['native/framework', 'native/kernels', ...FAMILIES, 'native/tests', 'native/bench'],
  ],
  [/^nlohmann\//, ['native/framework', 'native/tests']],
  [/^(whisper|parakeet)\.h$/, ['native/models/whisper']],
  [/^miniaudio\.h$/, ['native/audio']],
  [/^napi\.h$/, ['native/binding']],
];
const ENVIRONMENT_READER = 'src/core/config.ts';

/** Instructions of one processor: everything else computes with the vector type of this folder. */
const INTRINSICS = /\b(__m(128|256|512)|_mm(256|512)_)/;
const INTRINSICS_FOLDER = 'native/kernels';

const MAX_LINES = 400;
const IMPORT =
  /(?:\bfrom|\bimport|\brequire)\s*\(?\s*['"]([^'"]+)['"]|^\s*#\s*include\s*[<"]([^>"]+)[>"]/gm;

const files = ['src', 'workers', 'native']
  .flatMap((root) =>
    readdirSync(root, { recursive: true, encoding: 'utf8' }).map((file) => path.join(root, file)),
  )
  .filter((file) => /\.(ts|h|cpp)$/.test(file));

function within(file: string, part: string): boolean {
  return file === part || file.startsWith(`${part}/`);
}

function partOf(file: string): string | undefined {
  return Object.keys(MAY_IMPORT)
    .filter((part) => within(file, part))
    .sort((a, b) => b.length - a.length)[0];
}

function resolve(file: string, target: string): string {
  if (file.startsWith('native/')) return path.join('native', target);
  return target.startsWith('.') ? path.join(path.dirname(file), target) : '';
}

function violations(file: string): string[] {
  const from = partOf(file);
  if (from === undefined) return [`${file} is in no part`];
  const text = readFileSync(file, 'utf8');
  const found = [...text.matchAll(IMPORT)].flatMap(([, ts, cpp]) => {
    const target = ts ?? cpp ?? '';
    const fence = FENCED.find(([name]) => name.test(target));
    if (fence && !fence[1].includes(from))
      return [`${file}: ${target} is for ${fence[1].join(', ')}`];
    const to = partOf(resolve(file, target));
    if (to === undefined || to === from) return [];
    if (MAY_IMPORT[from]?.some((part) => within(to, part))) return [];
    return [`${file}: ${from} may not import ${to}`];
  });
  if (/\bprocess\.env\b/.test(text) && file !== ENVIRONMENT_READER) {
    found.push(`${file}: process.env is for ${ENVIRONMENT_READER}`);
  }
  if (INTRINSICS.test(text) && !within(file, INTRINSICS_FOLDER)) {
    found.push(`${file}: vector intrinsics are for ${INTRINSICS_FOLDER}`);
  }
  return found;
}

test('every import follows the direction drawn in docs/architecture.md', () => {
  expect(files.flatMap(violations)).toEqual([]);
});

test(`no source file is longer than ${MAX_LINES} lines`, () => {
  const long = files.filter((file) => readFileSync(file, 'utf8').split('\n').length > MAX_LINES);
  expect(long).toEqual([]);
});

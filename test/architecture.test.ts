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

/**
 * The sub-folders of each folder that has some, and what each may import of that folder: only what is named above it, so
 * there is no way round. `.` stands for the files that lie directly in the folder, a file name for that one file.
 */
const SUBFOLDERS: Record<string, Record<string, string[]>> = {
  'src/core': {
    '.': [],
    job: ['.'],
    results: ['.', 'job'],
    worker: ['.', 'job'],
    live: ['.', 'job'],
    evidence: ['.', 'job'],
    files: ['.', 'results'],
    http: ['.', 'job', 'results', 'worker'],
  },
  'src/queue': {
    redis: [],
    tenants: ['redis'],
    jobs: ['redis', 'tenants'],
    events: ['redis', 'jobs'],
    webhooks: ['redis', 'jobs'],
    fleet: ['redis', 'jobs', 'events'],
    live: ['redis', 'fleet'],
    '.': ['redis', 'tenants', 'jobs', 'events', 'webhooks', 'fleet'],
    access: ['redis', '.'],
    batches: ['redis', 'jobs', 'events', 'webhooks', '.'],
  },
  'src/runtime': {
    '.': [],
    slots: ['.'],
    batches: ['.', 'slots'],
    models: ['.', 'slots', 'batches'],
    'runtime.ts': ['.', 'slots', 'batches', 'models'],
  },
  'src/models': {
    catalogue: [],
    installed: ['catalogue'],
    evidence: [],
    validation: ['evidence'],
    tuning: ['evidence', 'validation'],
    report: [],
    files: ['catalogue'],
    download: ['catalogue', 'files'],
    convert: ['catalogue', 'installed', 'files'],
    store: ['catalogue', 'installed', 'files', 'download', 'convert'],
  },
  'src/worker': {
    audio: [],
    speech: ['audio'],
    journal: [],
    parts: ['audio', 'journal', 'speech'],
    tasks: ['audio', 'journal', 'parts', 'speech'],
    job: ['audio', 'journal', 'parts', 'speech', 'tasks'],
    live: ['speech'],
    models: ['audio', 'live', 'speech'],
    supervisor: [],
    housekeeping: [],
    '.': ['job', 'live', 'models', 'parts'],
  },
  'src/cli': {
    terminal: [],
    options: ['terminal'],
    access: ['terminal', 'options'],
    capacity: ['terminal', 'options'],
    fleet: ['terminal', 'options', 'access', 'capacity'],
    run: ['terminal', 'options', 'access', 'capacity', 'fleet'],
    commands: ['terminal', 'options', 'access', 'capacity', 'fleet', 'run'],
    '.': ['terminal', 'commands'],
  },
  'src/http': {
    'settings.ts': [],
    'queue-limit.ts': [],
    metrics: [],
    events: [],
    pages: [],
    'services.ts': ['settings.ts', 'queue-limit.ts', 'metrics', 'events'],
    auth: ['services.ts'],
    request: ['services.ts', 'auth'],
    resources: ['services.ts'],
    submit: ['settings.ts', 'services.ts', 'auth', 'request'],
    'event-streams': ['services.ts', 'events', 'resources'],
    openai: ['services.ts', 'submit', 'event-streams'],
    board: ['services.ts', 'pages', 'auth', 'request', 'resources'],
    routes: [
      ...['services.ts', 'events', 'pages', 'auth', 'request', 'resources', 'submit'],
      ...['event-streams', 'openai'],
    ],
    '.': [
      ...['settings.ts', 'queue-limit.ts', 'services.ts', 'metrics', 'events', 'auth', 'request'],
      ...['board', 'routes'],
    ],
  },
  'src/storage': {
    '.': [],
    s3: ['.'],
    'open-storage.ts': ['.', 's3'],
  },
  'native/framework': {
    '.': [],
    compute: ['.'],
    tensors: ['.'],
    sessions: ['.'],
    models: ['.', 'compute', 'tensors', 'sessions'],
  },
  'native/audio': {
    bytes: [],
    conversion: [],
    containers: ['bytes'],
    '.': ['bytes', 'conversion', 'containers'],
  },
  'native/models/whisper': {
    library: [],
    checkpoint: ['library'],
    packed: ['checkpoint'],
    request: ['checkpoint'],
    decoding: ['library', 'checkpoint', 'request'],
    '.': ['library', 'checkpoint', 'packed', 'request', 'decoding'],
  },
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
const MAX_FILES = 25;
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

/** The sub-folder of `folder` in which a file lies, by its name in `SUBFOLDERS`. */
function subfolderOf(folder: string, file: string): string {
  const [first = '', ...rest] = path.relative(folder, file).split('/');
  if (rest.length > 0 || Object.hasOwn(SUBFOLDERS[folder] ?? {}, first)) return first;
  return '.';
}

function violationsInside(folder: string, file: string): string[] {
  const from = subfolderOf(folder, file);
  const allowed = SUBFOLDERS[folder]?.[from];
  if (allowed === undefined) return [`${file}: ${folder} has no ${from} in SUBFOLDERS`];
  return [...readFileSync(file, 'utf8').matchAll(IMPORT)]
    .map(([, ts, cpp]) => resolve(file, ts ?? cpp ?? ''))
    .filter((target) => within(target, folder))
    .map((target) => subfolderOf(folder, target))
    .filter((to) => to !== from && !allowed.includes(to))
    .map((to) => `${file}: ${from} may not import ${to}`);
}

test('every import between sub-folders follows the table', () => {
  const found = Object.keys(SUBFOLDERS).flatMap((folder) =>
    files.filter((file) => within(file, folder)).flatMap((file) => violationsInside(folder, file)),
  );
  expect(found).toEqual([]);
});

test('a sub-folder imports only what the table names above it', () => {
  for (const table of Object.values(SUBFOLDERS)) {
    const names = Object.keys(table);
    for (const [index, allowed] of Object.values(table).entries()) {
      expect(names.slice(0, index)).toEqual(expect.arrayContaining(allowed));
    }
  }
});

test(`no source file is longer than ${MAX_LINES} lines`, () => {
  const long = files.filter((file) => readFileSync(file, 'utf8').split('\n').length > MAX_LINES);
  expect(long).toEqual([]);
});

test(`no folder has more than ${MAX_FILES} files`, () => {
  const counts = new Map<string, number>();
  for (const file of files.filter((each) => !within(each, 'native/tests'))) {
    const folder = path.dirname(file);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  expect([...counts].filter(([, count]) => count > MAX_FILES)).toEqual([]);
});

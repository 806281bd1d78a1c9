/** The framework gate: its entries rest on tests that exist, and on all of them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { CheckoutTests } from '../../../src/models/validation/checkout-tests.ts';
import {
  FRAMEWORK_ENTRIES,
  type Sanitizer,
  type TestCount,
  type TestRunner,
  validateFramework,
} from '../../../src/models/validation/framework-gate.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const OPTIONS = {
  build: 'build-1',
  machine: { cpu: 'test', cores: 2, memoryBytes: 1, os: 'test' },
  reproduce: 'test',
};

/** Everything passes but what is named. */
class ScriptedRunner implements TestRunner {
  readonly obstacle = undefined;
  readonly ran: string[] = [];
  readonly #odd: ReadonlyMap<string, Partial<TestCount>>;

  constructor(odd: Readonly<Record<string, Partial<TestCount>>> = {}) {
    this.#odd = new Map(Object.entries(odd));
  }

  build(): Promise<string> {
    return Promise.resolve('build-1');
  }

  native(suites: readonly string[], sanitizer?: Sanitizer): Promise<readonly TestCount[]> {
    return this.#count(suites.map((suite) => (sanitizer ? `${suite} ${sanitizer}` : suite)));
  }

  vitest(files: readonly string[]): Promise<readonly TestCount[]> {
    return this.#count(files);
  }

  #count(names: readonly string[]): Promise<readonly TestCount[]> {
    this.ran.push(...names);
    const passed = { passed: 3, failed: 0, skipped: 0 };
    return Promise.resolve(names.map((name) => ({ name, ...passed, ...this.#odd.get(name) })));
  }
}

async function statusesWith(runner: TestRunner): Promise<Record<string, string>> {
  const { entries } = await validateFramework(runner, OPTIONS);
  return Object.fromEntries(entries.map(({ id, status }) => [id, status]));
}

test('there are six entries, and every test that they name exists', () => {
  expect(FRAMEWORK_ENTRIES.map(({ id }) => id)).toEqual(['F1', 'F2', 'F3', 'F4', 'F5', 'F6']);
  const files = FRAMEWORK_ENTRIES.flatMap((entry) => entry.files);
  expect(files.filter((file) => !existsSync(path.join(ROOT, file)))).toEqual([]);
  const native = path.join(ROOT, 'native/tests');
  const sources = readdirSync(native, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('_test.cpp'))
    .map((name) => readFileSync(path.join(native, name), 'utf8'))
    .join('\n');
  const suites = FRAMEWORK_ENTRIES.flatMap((entry) => entry.suites).filter((name) => name !== '*');
  expect(suites.filter((name) => !new RegExp(`TEST(_F|_P)?\\(${name},`).test(sources))).toEqual([]);
});

test('every entry passes when all of its tests do, sanitizers included', async () => {
  const runner = new ScriptedRunner();
  expect(new Set(Object.values(await statusesWith(runner)))).toEqual(new Set(['PASS']));
  expect(runner.ran).toContain('* address,undefined');
  expect(runner.ran).toContain('* thread');
});

test('a test that fails, or a file of which nothing ran, spoils its entries only', async () => {
  const runner = new ScriptedRunner({
    'test/runtime/slots/overdue.test.ts': { failed: 1 },
    'test/queue/jobs/handback.redis.test.ts': { passed: 0, skipped: 3 },
    '* thread': { passed: 0, failed: 1 },
  });
  expect(await statusesWith(runner)).toEqual({
    F1: 'FAIL',
    F2: 'PASS',
    F3: 'PASS',
    F4: 'BLOCKED',
    F5: 'PASS',
    F6: 'FAIL',
  });
});

test('an entry without tests is pending', async () => {
  const entries = [{ id: 'F1', title: 'nothing', suites: [], files: [] }];
  const evidence = await validateFramework(new ScriptedRunner(), { ...OPTIONS, entries });
  expect(evidence.entries[0]).toMatchObject({ status: 'PENDING' });
});

test('sources of another build prove nothing about this one', async () => {
  const { entries } = await validateFramework(new ScriptedRunner(), { ...OPTIONS, build: 'other' });
  expect(entries.map(({ status }) => status)).toEqual(Array(6).fill('BLOCKED'));
  expect(entries[0]?.reason).toContain('build-1');
});

test('an installed package has no tests to run, and says so', async () => {
  const root = await mkdtemp(path.join(tmpdir(), 'wavepool-installed-'));
  const runner = new CheckoutTests({ environment: {}, root });
  const { entries } = await validateFramework(runner, OPTIONS);
  await rm(root, { recursive: true });
  expect(entries.map(({ status }) => status)).toEqual(Array(6).fill('BLOCKED'));
  expect(entries[0]?.reason).toContain('run it in a checkout');
});

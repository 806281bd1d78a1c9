import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { loadBinding, missingCpuFeatures } from '../../src/engine/binding.ts';
import { NativeEngine } from '../../src/engine/native-engine.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'wavepool-binding-'));
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

const V3 = 'fpu sse4_2 avx avx2 bmi1 bmi2 f16c fma movbe xsave abm';

test('a CPU with every x86-64-v3 feature lacks nothing', () => {
  expect(missingCpuFeatures(`processor\t: 0\nflags\t\t: ${V3}\nbugs\t\t:`)).toEqual([]);
});

test('the features that a CPU lacks are named', () => {
  const flags = V3.replace('avx2 ', '').replace(' fma', '');
  expect(missingCpuFeatures(`flags\t\t: ${flags}\n`)).toEqual(['avx2', 'fma']);
});

test('a missing addon is reported with the command that builds it', async () => {
  const engine = new NativeEngine({ addon: path.join(folder, 'addon.node') });
  expect(() => engine.build).toThrow(
    expect.objectContaining({
      code: 'ADDON_MISSING',
      message: expect.stringMatching(/wavepool doctor --build/),
    }),
  );
  await expect(engine.loadModel('any.gguf')).rejects.toMatchObject({ code: 'ADDON_MISSING' });
});

test('a file that is no addon is reported, with its cause', () => {
  const file = path.join(folder, 'addon.node');
  writeFileSync(file, 'not a shared library');
  expect(() => loadBinding(file)).toThrow(
    expect.objectContaining({ code: 'ADDON_MISSING', cause: expect.any(Error) }),
  );
});

test('importing the core, the runtime and the engine loads no addon; the first use does', async () => {
  const dlopen = vi.spyOn(process, 'dlopen');
  const root = path.resolve(import.meta.dirname, '../../src');
  const files = ['core', 'runtime', 'engine'].flatMap((part) =>
    readdirSync(path.join(root, part), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => path.join(root, part, file)),
  );
  expect(files.length).toBeGreaterThan(3);
  for (const file of files) await import(file);
  expect(dlopen).not.toHaveBeenCalled();

  const addon = path.join(folder, 'addon.node');
  writeFileSync(addon, 'not a shared library');
  expect(() => new NativeEngine({ addon }).build).toThrow();
  expect(dlopen).toHaveBeenCalledOnce();
});

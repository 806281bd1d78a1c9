import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/redis.ts';
import { runCli } from '../run-cli.ts';

test('a key is made, shown once, listed without its secret and revoked', async () => {
  await using folder = await temporaryFolder();
  const keys = (...argv: string[]) => runCli(['keys', ...argv, '--data-dir', folder.path]);
  const made = await keys('create', '--name', 'ci', '--scope', 'read,manage', '--json');
  expect(made.code).toBe(0);
  const { id, key, scopes } = JSON.parse(made.stdout);
  expect(scopes).toEqual(['read', 'manage']);
  const listed = await keys('list', '--json');
  expect(JSON.parse(listed.stdout)).toMatchObject([{ id, name: 'ci', scopes }]);
  // The secret itself may hold the character that separates it from the id.
  const secret = key.split('_').slice(2).join('_');
  expect(secret.length).toBeGreaterThan(20);
  expect(listed.stdout).not.toContain(secret);
  expect((await keys('list')).stdout).toContain('read,manage');
  const revoked = await keys('revoke', id);
  expect(revoked.code).toBe(0);
  expect(revoked.stderr).toContain('no key is left');
  expect((await keys('revoke', id)).code).toBe(2);
  expect(JSON.parse((await keys('list', '--json')).stdout)).toEqual([]);
});

test('a key of a tenant says so, and who is no tenant gets none', async () => {
  await using folder = await temporaryFolder();
  const keys = (...argv: string[]) => runCli(['keys', ...argv, '--data-dir', folder.path]);
  const made = await keys('create', '--tenant', 'acme', '--json');
  expect(JSON.parse(made.stdout)).toMatchObject({ tenant: 'acme', scopes: ['read', 'submit'] });
  expect(made.stderr).toContain('for acme');
  const file = join(folder.path, 'api-key');
  await writeFile(file, JSON.parse(made.stdout).key);
  expect((await keys('import', file, '--tenant', 'other')).stderr).toContain('for other');
  expect(JSON.parse((await keys('list', '--json')).stdout)).toMatchObject([{ tenant: 'other' }]);
  expect((await keys('list')).stdout).toMatch(/TENANT.*\n.*other/);
  expect((await keys('create', '--tenant', '*')).code).toBe(2);
});

test('a scope that there is not is a usage error', async () => {
  expect((await runCli(['keys', 'create', '--scope', 'write'])).code).toBe(2);
});

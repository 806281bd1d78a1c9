import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/redis.ts';
import { runCli } from './run-cli.ts';

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

test('a scope that there is not is a usage error', async () => {
  expect((await runCli(['keys', 'create', '--scope', 'write'])).code).toBe(2);
});

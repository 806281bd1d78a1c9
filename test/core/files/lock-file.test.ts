import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LockFile, LockHeldError } from '../../../src/core/files/lock-file.ts';
import { identifySelf } from '../../../src/core/files/process-identity.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'wavepool-lock-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function leaveDeadLock(path: string, nonce: string): Promise<void> {
  const process = { ...(await identifySelf()), started: 'long ago' };
  await writeFile(path, JSON.stringify({ nonce, process }));
}

test('many that find the same dead lock at once take it one after the other', async () => {
  const path = join(folder, 'lock');
  await leaveDeadLock(path, 'dead');
  let inside = 0;
  const most: number[] = [];
  await Promise.all(
    Array.from({ length: 12 }, async () => {
      const lock = await LockFile.acquire(path);
      most.push(++inside);
      await readdir(folder);
      inside--;
      await lock.release();
    }),
  );
  expect(most).toEqual(Array(12).fill(1));
  expect(await readdir(folder)).toEqual([]);
});

test('a process that died while it took a dead lock over does not block the next', async () => {
  const path = join(folder, 'lock');
  await leaveDeadLock(path, 'dead');
  await leaveDeadLock(`${path}.dead`, 'dead-too');
  await (await LockFile.acquire(path)).release();
  expect(await readdir(folder)).toEqual([]);
});

test('a lock file that lost its content is taken over', async () => {
  const path = join(folder, 'lock');
  await writeFile(path, '');
  await (await LockFile.acquire(path)).release();
  expect(await readdir(folder)).toEqual([]);
});

test('a held lock is refused when the time is up, naming holder and file', async () => {
  const path = join(folder, 'lock');
  await using _ = await LockFile.acquire(path);
  const refused = LockFile.acquire(path, { timeoutMs: 0 });
  await expect(refused).rejects.toThrow(LockHeldError);
  await expect(refused).rejects.toThrow(`process ${process.pid}`);
});

test('waiting for a lock ends with the signal', async () => {
  const path = join(folder, 'lock');
  await using _ = await LockFile.acquire(path);
  const reason = new Error('enough');
  await expect(LockFile.acquire(path, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
});

test('releasing twice does not release the next holder', async () => {
  const path = join(folder, 'lock');
  const first = await LockFile.acquire(path);
  await first.release();
  await using _ = await LockFile.acquire(path);
  await first.release();
  await expect(LockFile.acquire(path, { timeoutMs: 0 })).rejects.toThrow(LockHeldError);
});

test('a folder that does not exist is an error, not a wait', async () => {
  await mkdir(join(folder, 'there'));
  await expect(LockFile.acquire(join(folder, 'missing', 'lock'))).rejects.toThrow('ENOENT');
});

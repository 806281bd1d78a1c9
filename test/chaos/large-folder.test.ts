/** A folder of 100,000 files: walked as a stream, in memory that its names take and no more. */
import { mkdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { scanInputs } from '../../src/bulk/scan.ts';
import { temporaryFolder } from '../support/redis.ts';
import { SMALL_DISKS, SmallDisk } from '../support/small-disk.ts';

const FILES = 100_000;
/** 1.5 KiB for each file, whatever the files hold. */
const MEMORY_LIMIT = 150 * 2 ** 20;

test('the first inputs come before the last are looked at, and memory stays within bounds', async () => {
  // Only quicker on a disk in memory.
  await using folder = await (SMALL_DISKS ? SmallDisk.mount(2 ** 26) : temporaryFolder());
  const root = join(folder.path, 'in');
  mkdirSync(root);
  const nameOf = (at: number) => join(root, `clip-${String(at).padStart(6, '0')}.wav`);
  for (let at = 0; at < FILES; at += 1) writeFileSync(nameOf(at), '');
  const before = process.memoryUsage().heapUsed;
  let peak = 0;
  let found = 0;
  const problems: string[] = [];
  for await (const entry of scanInputs({ files: [], directories: [root] }, {})) {
    if (found === 0) {
      // It goes between the listing and its turn: so its turn had not come.
      unlinkSync(nameOf(FILES - 1));
      expect(entry).toMatchObject({ kind: 'input', path: nameOf(0) });
    }
    if (entry.kind === 'problem') problems.push(entry.path);
    found += 1;
    if (found % 5_000 === 0) peak = Math.max(peak, process.memoryUsage().heapUsed - before);
  }
  expect(found).toBe(FILES);
  expect(problems).toEqual([nameOf(FILES - 1)]);
  expect(peak).toBeLessThan(MEMORY_LIMIT);
}, 120_000);

/**
 * `npm run bench -- [moonshine|whisper|vad] [options]`: sets up Wavepool, then measures one part with its options, or all of
 * them, one after the other, as they come. What was measured is written into docs/performance.md.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';

const PARTS = ['moonshine', 'whisper', 'vad'];
const ROOT = path.resolve(import.meta.dirname, '..');

function run(program, args) {
  const { status } = spawnSync(process.execPath, [program, ...args], {
    cwd: ROOT,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error(`${path.basename(program)} failed`);
}

const [part, ...args] = process.argv.slice(2);
if (part !== undefined && !PARTS.includes(part)) {
  throw new Error(`${part} is none of ${PARTS.join(', ')}; options come after one of them`);
}
run(path.join(ROOT, 'scripts/setup.mjs'), []);
mkdirSync(path.join(import.meta.dirname, '.cache'), { recursive: true });
for (const each of part === undefined ? PARTS : [part]) {
  run(path.join(import.meta.dirname, `${each}.mjs`), args);
}

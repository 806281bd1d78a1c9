// Faults without rounds to count: what happens is asserted by tests that `npm test` runs whole, too.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';

/** `tests`: of the file, those whose names match. */
const CHECKS = [
  {
    fault: 'Redis would evict, has no memory, or does not answer',
    file: 'test/chaos/redis.redis.test.ts',
    tests: /the server says what is wrong with Redis/,
  },
  {
    fault: 'Redis is too old',
    file: 'test/chaos/redis.redis.test.ts',
    tests: /a Redis that is too old/,
  },
  {
    fault: 'the disk of the private Redis is full',
    file: 'test/queue/redis/embedded-redis.redis.test.ts',
    tests: /a full disk ends the server/,
  },
  {
    fault: 'the output disk of a run is full',
    file: 'test/chaos/disk.redis.test.ts',
    tests: /a run whose output disk is full/,
  },
  {
    fault: 'two runs use one output folder at once',
    file: 'test/bulk/run-directory.redis.test.ts',
    tests: /two runs cannot use one output/,
  },
  {
    fault: 'an input changes or vanishes while it is read',
    file: 'test/worker/job/job-processor.test.ts',
    tests: /a file that .* while it is read/,
  },
  {
    fault: 'a file of a watched folder is not whole yet',
    file: 'test/bulk/watch-inputs.test.ts',
    tests: /a file that grows|vanished before it was whole|not changed for long enough/,
  },
  {
    fault: 'links that loop, folders that cannot be read',
    file: 'test/bulk/scan.test.ts',
    tests: /loops end|cannot be read/,
  },
  { fault: 'a folder of 100,000 files', file: 'test/chaos/large-folder.test.ts', tests: /./ },
  { fault: '1,000 inputs in a run', file: 'test/bulk/thousand-inputs.redis.test.ts', tests: /./ },
  {
    fault: 'a playlist, script or reference as input',
    file: 'test/chaos/hostile-media.test.ts',
    tests: /names other files or addresses/,
  },
  {
    fault: 'much silence in a small file',
    file: 'test/chaos/hostile-media.test.ts',
    tests: /holds much silence/,
  },
  {
    fault: 'damaged requests and names',
    file: 'test/chaos/request-fuzz.redis.test.ts',
    tests: /./,
  },
];

/** Runs them all. @returns for each the fault and, where it is not as it should be, the reason */
export function runChecks(root, folder) {
  const report = path.join(folder, 'checks.json');
  const files = [...new Set(CHECKS.map(({ file }) => file))];
  const vitest = path.join(root, 'node_modules/vitest/vitest.mjs');
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const args = [vitest, 'run', '--project', 'parts', ...reporters, ...files];
  spawnSync(process.execPath, args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
  if (!existsSync(report)) return CHECKS.map(({ fault }) => ({ fault, error: 'did not run' }));
  const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
  return CHECKS.map((check) => ({
    fault: check.fault,
    error: problemOf(check, testResults, root),
  }));
}

function problemOf({ file, tests }, testResults, root) {
  const ofFile = testResults.find(({ name }) => name === path.join(root, file));
  const found = (ofFile?.assertionResults ?? []).filter(({ fullName }) => tests.test(fullName));
  if (found.length === 0) return 'has no test';
  const bad = found.find(({ status }) => status !== 'passed');
  if (bad === undefined) return undefined;
  const [message = ''] = String(bad.failureMessages?.[0]).split('\n');
  return bad.status === 'failed' ? `${bad.fullName}: ${message}` : 'cannot be tested here';
}

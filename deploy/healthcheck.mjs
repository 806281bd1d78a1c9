// Says by its exit code whether what runs in this container works. Usage: node healthcheck.mjs server [PORT] | worker
import { spawnSync } from 'node:child_process';
import { hostname } from 'node:os';
import path from 'node:path';
import process from 'node:process';

const TIMEOUT_MS = 8_000;
const CLI = path.join(import.meta.dirname, '../dist/src/cli/main.js');

/** Redis answers and requests are taken. */
async function checkServer(port = '8080') {
  const response = await fetch(`http://127.0.0.1:${port}/readyz`, {
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (!response.ok) throw new Error(`/readyz answered ${response.status}`);
}

/** A worker process of this host has published itself within the last seconds. */
function checkWorker() {
  const { stdout, stderr, error } = spawnSync(
    process.execPath,
    [CLI, 'status', '--json', '--failures', '1'],
    { encoding: 'utf8', timeout: TIMEOUT_MS },
  );
  if (error || !stdout) throw error ?? new Error(stderr);
  const { workers } = JSON.parse(stdout);
  if (!workers.some(({ host }) => host === hostname())) {
    throw new Error('no worker of this container is alive');
  }
}

try {
  const [role, port] = process.argv.slice(2);
  if (role === 'worker') checkWorker();
  else await checkServer(port);
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}

/**
 * How many jobs a second `POST /v1/jobs` accepts, and how long each takes: a server of its own without workers, 16
 * connections, a warm-up that does not count.
 *
 *   node bench/http-submit.mjs [--seconds N] [--connections N] [--json]
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SPEECH = path.join(ROOT, 'test/fixtures/speech');

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    connections: { type: 'string', default: '16' },
    json: { type: 'boolean', default: false },
  },
});

async function startServer(home) {
  const args = ['dist/src/cli/main.js', 'serve', '--port', '0', '--quiet'];
  const places = ['--data-dir', path.join(home, 'data'), '--input-root', SPEECH];
  const server = spawn(process.execPath, [...args, ...places, '--max-queued', '10000000'], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(server.stdout.setEncoding('utf8'), 'data');
  return { server, url: line.trim() };
}

function load(url, seconds) {
  return autocannon({
    url: `${url}/v1/jobs`,
    method: 'POST',
    connections: Number(values.connections),
    duration: seconds,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input: { path: path.join(SPEECH, 'jfk.mp3') }, delayMs: 3_600_000 }),
  });
}

const home = mkdtempSync(path.join(tmpdir(), 'wavepool-bench-'));
const { server, url } = await startServer(home);
try {
  await load(url, 5);
  const { requests, latency, non2xx } = await load(url, Number(values.seconds));
  const { p50, p99 } = latency;
  const found = { perSecond: requests.average, p50, p99, refused: non2xx };
  console.log(
    values.json
      ? JSON.stringify({ connections: Number(values.connections), ...found })
      : `${found.perSecond.toFixed(0)} accepted per second; p50 ${p50} ms, p99 ${p99} ms; ${non2xx} refused`,
  );
} finally {
  server.kill('SIGTERM');
  await once(server, 'exit');
  rmSync(home, { recursive: true, force: true });
}

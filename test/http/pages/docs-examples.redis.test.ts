import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { startTestServer, TEST_MODEL } from '../../support/http.ts';
import { startTranscriber } from '../../support/transcriber.ts';

test('the examples of docs/api.md run as they stand', { timeout: 60_000 }, async () => {
  const page = await readFile(new URL('../../../docs/api.md', import.meta.url), 'utf8');
  const examples = [...page.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, example]) => example);
  expect(examples.length).toBeGreaterThan(8);
  await using server = await startTestServer();
  await using _ = await startTranscriber({
    address: server.redis.address,
    model: TEST_MODEL,
    results: server.services.results,
    places: { uploadsDir: server.uploadsDir },
  });
  await writeFile(join(server.inputRoot, 'talk.wav'), 'hello there');
  const { stdout } = await promisify(execFile)(
    'bash',
    ['-euo', 'pipefail', '-c', examples.join('')],
    {
      cwd: server.inputRoot,
      env: { ...process.env, URL: server.url },
    },
  );
  expect(stdout).toContain('--> ');
  expect(stdout).toContain('"purged":true');
  expect(stdout).toContain('event: job.completed');
  expect(stdout).toContain('transcript.text.done');
  expect(stdout).toContain('JOB_NOT_FOUND');
});

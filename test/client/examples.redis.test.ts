/** Every example of docs/sdk.md, run against a real server, queue and Redis. */
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import ts from 'typescript';
import { afterAll, beforeAll, expect, test } from 'vitest';
import * as clientEntry from '../../src/client.ts';
import * as mainEntry from '../../src/index.ts';
import { startTestServer, type TestServer } from '../support/http.ts';
import { startTranscriber } from '../support/transcriber.ts';

const MODEL = 'moonshine-tiny';
const EXAMPLES = [
  ...readFileSync(new URL('../../docs/sdk.md', import.meta.url), 'utf8').matchAll(
    /^```ts\n(.*?)^```$/gms,
  ),
].map(([, source = ''], at) => [at + 1, source] as const);

let server: TestServer;
let worker: AsyncDisposable;
let recordings: string;

beforeAll(async () => {
  server = await startTestServer({ models: [MODEL], settings: { defaultModel: MODEL } });
  recordings = join(server.inputRoot, 'recordings');
  await mkdir(recordings);
  await writeFile(join(recordings, 'interview.wav'), 'Hello world.');
  await writeFile(join(recordings, 'broken.wav'), 'fail INPUT_UNDECODABLE');
  await writeFile(join(recordings, 'call.wav'), 'Hello world.');
  worker = await startTranscriber({
    address: server.redis.address,
    model: MODEL,
    results: server.services.results,
    places: { uploadsDir: server.uploadsDir },
  });
});
afterAll(async () => {
  await worker[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const ENTRIES: Record<string, unknown> = { wavepool: mainEntry, 'wavepool/client': clientEntry };

/** The example with the places of this machine, as a module that asks for its imports. Returns what it prints. */
async function run(source: string): Promise<string[]> {
  const placed = source
    .replaceAll(
      "{ kind: 'url', url: 'redis://127.0.0.1:6379' }",
      JSON.stringify(server.redis.address),
    )
    .replaceAll('http://127.0.0.1:8080', server.url)
    .replaceAll('/srv/recordings/', `${recordings}/`)
    .replaceAll("'recordings/", `'${recordings}/`)
    .replaceAll('/var/lib/wavepool/results', join(server.redis.dataDir, 'results'))
    .replaceAll('wp_…', 'wp_any')
    .replace(/^import (\{[^}]+\}) from ('[^']+');$/gm, 'const $1 = await load($2);');
  const { outputText } = ts.transpileModule(`async function example() {\n${placed}\n}`, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
  });
  const printed: string[] = [];
  const print = (...values: unknown[]): void => void printed.push(values.map(String).join(' '));
  const load = (name: string): unknown => ENTRIES[name] ?? import(name);
  const make = new Function('load', 'console', `${outputText}\nreturn example();`);
  await make(load, { log: print });
  return printed;
}

/** One job after the other, for a reader of events that begins some time. */
async function whileJobsEnd<Result>(reading: Promise<Result>): Promise<Result> {
  const { jobs } = new clientEntry.WavepoolClient({ baseUrl: server.url });
  let isOver = false;
  const over = reading.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    const { id } = await jobs.submit({ file: join(recordings, 'interview.wav') });
    await jobs.waitFor(id);
  }
  return over;
}

test.each(EXAMPLES)('example %i does what it says', async (_, source) => {
  const isWaiting = source.includes('client.events(');
  const running = run(source);
  const printed = await (isWaiting ? whileJobsEnd(running) : running);
  const isSilent = !source.includes('console.log');
  expect(printed.length > 0 || isSilent, source).toBe(true);
  const text = printed.join('\n');
  if (source.includes('result(') || source.includes('renderResult')) {
    expect(text).toContain('Hello world.');
  }
  if (source.includes('batches.results')) {
    expect(text).toContain('interview.wav Hello world.');
    expect(text).toContain('broken.wav INPUT_UNDECODABLE');
  }
});

test('there are examples for both classes', () => {
  const all = EXAMPLES.map(([, source]) => source).join('\n');
  expect(EXAMPLES.length).toBeGreaterThanOrEqual(8);
  expect(all).toContain('new WavepoolClient(');
  expect(all).toContain('AudioQueue.open(');
});

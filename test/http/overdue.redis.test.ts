import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OpenAiTranscription } from '../../src/core/http/openai.ts';
import { ProblemDetails } from '../../src/core/http/problem.ts';
import { NativeEngine } from '../../src/engine/native-engine.ts';
import { writeWav } from '../engine/fake-model.ts';
import { TEST_ADDON, TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { FakeWorker } from '../support/fake-worker.ts';
import { HeldEngine } from '../support/held-engine.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../support/http.ts';

/** What a newcomer waits for a slot, in milliseconds: holders are overdue for it soon after they began. */
const PATIENCE_MS = 15;
/** Whole windows of the fake detector, all of them speech. */
const SECONDS = 1.024;

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server[Symbol.asyncDispose]());

async function transcribe(seed: number, fields: Record<string, string> = {}): Promise<Response> {
  const path = writeWav(join(server.redis.dataDir, `${seed}.wav`), SECONDS, seed);
  const form = new FormData();
  form.append('file', new Blob([await readFile(path)]), `${seed}.wav`);
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  return server.request('/v1/audio/transcriptions', { method: 'POST', body: form });
}

async function textOf(response: Response): Promise<string> {
  expect(response.status).toBe(200);
  return OpenAiTranscription.parse(await response.json()).text;
}

async function passed(ms: number): Promise<void> {
  const since = performance.now();
  await expect.poll(() => performance.now() - since, { interval: 5 }).toBeGreaterThan(ms);
}

describe.skipIf(!TEST_ADDON_BUILT).each([
  { slots: 1, held: 1, unload: false },
  { slots: 1, held: 1, unload: true },
  { slots: 2, held: 2, unload: false },
  { slots: 2, held: 2, unload: true },
  { slots: 2, held: 1, unload: true },
  { slots: 4, held: 4, unload: true },
  { slots: 4, held: 2, unload: true },
])('with $held of $slots slots overdue, unload waiting: $unload', ({ slots, held, unload }) => {
  test('a newcomer is refused with the reason, and nothing that runs is harmed', {
    timeout: 30_000,
  }, async () => {
    const engine = new HeldEngine(new NativeEngine({ addon: TEST_ADDON }));
    await using worker = await FakeWorker.start({
      address: server.redis.address,
      folder: server.redis.dataDir,
      models: { [TEST_MODEL]: { capacity: 4 } },
      batch: 1,
      settings: { unvalidatedSlots: 4 },
      engine,
      slots,
    });
    const seeds = Array.from({ length: held }, (_, at) => 100 + at);
    const alone: string[] = [];
    for (const seed of seeds) alone.push(await textOf(await transcribe(seed)));
    expect(new Set(alone).size).toBe(held);

    engine.runs.close();
    const running = seeds.map((seed) => transcribe(seed));
    await worker.model(TEST_MODEL, ({ activeSlots }) => activeSlots === held);
    const unloaded = unload ? server.post(`/v1/models/${TEST_MODEL}/unload`, {}) : undefined;
    if (unload) await worker.model(TEST_MODEL, (model) => model.waitingManagers === 1);
    await passed(PATIENCE_MS);

    const refused = await transcribe(7, { busy_timeout_ms: String(PATIENCE_MS) });
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).not.toBeNull();
    expect(ProblemDetails.parse(await refused.json())).toMatchObject({
      code: 'BUSY_OVERDUE',
      detail: expect.stringContaining('all active slots are overdue'),
      error: { type: 'server_busy' },
    });
    expect(await worker.model(TEST_MODEL, () => true)).toMatchObject({
      activeSlots: held,
      queuedRequests: 0,
      waitingManagers: unload ? 1 : 0,
    });

    engine.runs.open();
    expect(await Promise.all((await Promise.all(running)).map(textOf))).toEqual(alone);
    if (unloaded !== undefined) expect((await unloaded).status).toBe(200);
    await worker.model(TEST_MODEL, ({ loaded }) => loaded !== unload);
    expect(await textOf(await transcribe(seeds[0] ?? 0))).toBe(alone[0]);
    expect(await worker.model(TEST_MODEL, ({ activeSlots }) => activeSlots === 0)).toMatchObject({
      loaded: true,
      generation: unload ? 2 : 1,
      exclusive: false,
      queuedRequests: 0,
      waitingManagers: 0,
      batches: { queuedItems: 0, runningItems: 0, completedItems: 2 * held + 1 },
    });
  });
});

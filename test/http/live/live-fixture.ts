/** A server and a worker that take live audio of the fake families. */
import { join } from 'node:path';
import { expect } from 'vitest';
import { NativeEngine } from '../../../src/engine/native-engine.ts';
import { writeFakeModel } from '../../engine/fake-model.ts';
import { TEST_ADDON } from '../../engine/test-addon.ts';
import { FakeWorker } from '../../support/fake-worker.ts';
import { HeldEngine } from '../../support/held-engine.ts';
import { TEST_MODEL, type TestServer } from '../../support/http.ts';
import { LiveClient, type LiveClientOptions } from '../../support/live-client.ts';

/** Every pause ends a segment. */
export const OPTIONS = { vad: { targetSegmentMs: 0 } };
export const QUERY = { options: JSON.stringify(OPTIONS) };
/** The detector of live streams. */
export const LIVE = 'fake-vad~live';
export const MODELS = { [TEST_MODEL]: { maxSegmentSeconds: 10 } };

/** Settings of a worker that takes so many streams. */
export function taking(streams: number, folder: string) {
  const vad = { architecture: 'fake-vad', maxSegmentSeconds: 0, capacity: 16 } as const;
  const path = writeFakeModel(join(folder, 'live-vad.gguf'), vad);
  return {
    liveStreams: streams,
    unvalidatedSlots: streams,
    detector: { id: 'fake-vad', path },
  };
}

export function heldEngine(): HeldEngine {
  return new HeldEngine(new NativeEngine({ addon: TEST_ADDON }));
}

export async function startWorker(
  server: TestServer,
  streams: number,
  engine = heldEngine(),
): Promise<FakeWorker> {
  const { address, dataDir: folder } = server.redis;
  const settings = taking(streams, folder);
  const started = await FakeWorker.start({ address, folder, engine, models: MODELS, settings });
  await started.model(LIVE, () => true);
  return started;
}

export function openLive(server: TestServer, options: LiveClientOptions = {}): Promise<LiveClient> {
  return LiveClient.open(server.url, { query: QUERY, ...options });
}

export const failure = (code: string) => ({ error: { code, message: expect.any(String) } });

/** Live audio over HTTP with the real models: what is told is what was said. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { readConfig } from '../../../src/core/config.ts';
import { createLogger } from '../../../src/core/logger.ts';
import { WorkerSettings } from '../../../src/core/worker/worker-settings.ts';
import { addonPath } from '../../../src/engine/binding.ts';
import { NativeEngine } from '../../../src/engine/native-engine.ts';
import { ModelStore } from '../../../src/models/store/model-store.ts';
import { AudioWorker } from '../../../src/worker/audio-worker.ts';
import { startTestServer } from '../../support/http.ts';
import { LiveClient } from '../../support/live-client.ts';
import { BASE_CLIP, expectSaid } from '../../support/speech.ts';

const MODEL = 'moonshine-tiny';

const { modelsDir } = readConfig();
const store = new ModelStore({ directory: modelsDir, environment: process.env });
const silero = await store.locate('silero-vad');
const moonshine = await store.locate(MODEL);
const ready = silero !== undefined && moonshine !== undefined && existsSync(addonPath());
if (!ready) {
  process.stderr.write('NOT TESTED: live audio needs the addon, silero-vad and moonshine-tiny\n');
}

test.skipIf(!ready)(
  'what is said at 44.1 kHz in stereo is told',
  { timeout: 120_000 },
  async () => {
    await using server = await startTestServer({
      models: [MODEL],
      settings: { defaultModel: MODEL },
    });
    const engine = new NativeEngine();
    const worker = new AudioWorker({
      settings: WorkerSettings.parse({
        redis: server.redis.address,
        resultsDir: join(server.redis.dataDir, 'results'),
        models: [{ id: MODEL, path: moonshine?.path, slots: 1, batch: 8, threads: 1 }],
        detector: { id: 'silero-vad', path: silero?.path },
        liveStreams: 4,
      }),
      engine,
      planner: engine,
      results: server.services.results,
      logger: createLogger('silent', 'test'),
      report: () => undefined,
    });
    try {
      await worker.start();
      const raw = ['-ar', '44100', '-ac', '2', '-f', 's16le', 'pipe:1'];
      const { stdout: pcm } = await promisify(execFile)(
        'ffmpeg',
        ['-nostdin', '-loglevel', 'error', '-i', BASE_CLIP.path, ...raw],
        { encoding: 'buffer', maxBuffer: 2 ** 26 },
      );
      const query = { sample_rate: '44100', channels: '2' };
      using client = await LiveClient.open(server.url, { query });
      for (let at = 0; at < pcm.length; at += 40_000) client.chunk(pcm.subarray(at, at + 40_000));
      client.finish();
      const { text, durationSeconds } = await client.event('live.done');
      expectSaid(text, BASE_CLIP.reference);
      expect(durationSeconds).toBeCloseTo(pcm.length / 4 / 44_100, 1);
      expect((await client.event('live.speech-started')).start).toBeLessThan(1);
    } finally {
      await worker.close({ deadlineMs: 0 });
    }
  },
);

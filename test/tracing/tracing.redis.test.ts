import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { JobResource } from '../../src/core/http/api.ts';
import { parseWorkerMessage, type SupervisorMessage } from '../../src/core/worker/ipc.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { openTracing } from '../../src/tracing/open-tracing.ts';
import { writeWav } from '../engine/fake-model.ts';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { compileProgram } from '../support/compile.ts';
import { fakeSettings } from '../support/fake-worker.ts';
import { startTestServer } from '../support/http.ts';
import { startRedis } from '../support/redis.ts';
import type { CollectedSpan } from '../support/span-collector-program.ts';

vi.setConfig({ testTimeout: 60_000 });

const REPOSITORY = join(import.meta.dirname, '../..');

async function startProgram(source: string, env: Readonly<Record<string, string>> = {}) {
  const program = await compileProgram(join(REPOSITORY, source));
  const child = fork(program.path, { env: { ...process.env, ...env } });
  return {
    child,
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.kill('SIGKILL')) await once(child, 'exit');
      await program[Symbol.asyncDispose]();
    },
  };
}

async function heardFrom(child: ChildProcess): Promise<unknown> {
  return (await once(child, 'message'))[0];
}

async function tellWorker(child: ChildProcess, message: SupervisorMessage): Promise<void> {
  await new Promise<void>((resolve) => child.send(message, () => resolve()));
}

/** Resolves when a worker takes jobs. */
function readiness(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.on('message', (raw) => {
      const messages = [raw].flat().map((each) => parseWorkerMessage(each));
      if (messages.some((message) => message?.type === 'ready')) resolve();
    });
  });
}

function attributeOf({ attributes }: CollectedSpan, name: string): unknown {
  const found = attributes.find(({ key }) => key === `wavepool.${name}`);
  return found === undefined ? undefined : Object.values(found.value)[0];
}

test.skipIf(!TEST_ADDON_BUILT)(
  'a job is one trace from its producer to the native batch that it shares with others',
  async () => {
    await using redis = await startRedis();
    const { address, dataDir } = redis;
    await using collector = await startProgram('test/support/span-collector-program.ts');
    const endpoint = String(await heardFrom(collector.child));
    const url = `${endpoint}/v1/traces`;
    await using tracing = await openTracing({ url, serviceName: 'tests' }, 'producer');
    await using server = await startTestServer({ redis, models: ['asr'], tracing });
    await using queue = await AudioQueue.open({ address, model: 'asr', tracing });
    const traceId = 'c0ffee00c0ffee00c0ffee00c0ffee00';
    const path = writeWav(join(server.inputRoot, 'a.wav'), 2.048, 1);
    const traced = { traceparent: `00-${traceId}-00000000c0ffee00-01` };
    const request = { model: 'asr', tenant: 'desk', input: { path } };
    const response = await server.post('/v1/jobs', request, traced);
    expect(response.status).toBe(202);
    const second = writeWav(join(server.inputRoot, 'b.wav'), 2.048, 2);
    const [other = ''] = await queue.addMany([{ input: { kind: 'path', path: second } }]);
    await using worker = await startProgram('workers/audio-worker.ts', {
      OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    });
    const settings = fakeSettings({ address, folder: dataDir, models: { asr: {} } });
    const ready = readiness(worker.child);
    await tellWorker(worker.child, { type: 'start', settings });
    await ready;
    const { id } = JobResource.parse(await response.json());
    await Promise.all([queue.waitFor(id), queue.waitFor(other)]);
    // Both send what they have left when they end.
    const ended = once(worker.child, 'exit');
    await tellWorker(worker.child, { type: 'shutdown', deadlineMs: 10_000 });
    await ended;
    await tracing.close();
    collector.child.send('tell');
    const spans = (await heardFrom(collector.child)) as CollectedSpan[]; // See the program.

    const jobs = spans.filter(({ name }) => name === 'job');
    expect(jobs.map((job) => attributeOf(job, 'job.id')).toSorted()).toEqual(
      [id, other].toSorted(),
    );
    expect(jobs.find((job) => job.traceId === traceId)).toMatchObject({ role: 'worker' });
    const byId = new Map(spans.map((span) => [span.spanId, span]));
    for (const job of jobs) {
      const trace = spans.filter((span) => span.traceId === job.traceId);
      const steps = ['submit', 'process asr', 'job', 'queue wait', 'decode', 'vad'];
      expect(trace.map(({ name }) => name)).toEqual(
        expect.arrayContaining([...steps, 'recognize', 'commit']),
      );
      const roots = trace.filter(({ parentSpanId = '' }) => !byId.has(parentSpanId));
      expect(roots.map(({ name, role }) => [name, role])).toEqual([['submit', 'producer']]);
      expect(attributeOf(job, 'segments')).toBeGreaterThan(0);
      for (const segment of trace.filter(({ name }) => name === 'recognize')) {
        const [link, ...more] = segment.links ?? [];
        expect(more).toEqual([]);
        const batch = byId.get(link?.spanId ?? '');
        expect(batch).toMatchObject({ name: 'native batch', role: 'worker' });
        if (batch === undefined) throw new Error('it was in a batch');
        const members = (batch.links ?? []).map(({ spanId }) => spanId);
        expect(members).toContain(segment.spanId);
        expect(attributeOf(batch, 'batch.size')).toBe(members.length);
        expect(attributeOf(batch, 'model')).toBe('asr');
        expect(attributeOf(batch, 'audio_seconds')).toBeGreaterThan(0);
        const first = byId.get(batch.parentSpanId ?? '');
        expect(first).toMatchObject({ name: 'recognize', traceId: batch.traceId });
      }
    }
    const shared = spans.filter((span) => Number(attributeOf(span, 'batch.jobs')) === 2);
    expect(shared.length).toBeGreaterThan(0);
  },
);

test('without an address to send spans to, OpenTelemetry is not loaded', async () => {
  vi.doMock('../../src/tracing/open-telemetry.ts', () => {
    throw new Error('it was loaded');
  });
  vi.resetModules();
  const { openTracing: open } = await import('../../src/tracing/open-tracing.ts');
  await using tracing = await open(undefined, 'test');
  expect(tracing.telemetry).toBeUndefined();
  expect(await tracing.run('work', {}, (span) => Promise.resolve(span.end()))).toBeUndefined();
  await expect(open({ url: 'http://127.0.0.1:1', serviceName: 'x' }, 'test')).rejects.toThrow();
});

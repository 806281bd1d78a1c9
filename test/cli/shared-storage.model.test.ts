/** Server and worker on data directories of their own, with nothing in common but Redis and a bucket. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolClient } from '../../src/client/wavepool-client.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { S3_ENVIRONMENT, S3Server } from '../support/s3.ts';
import { BASE_CLIP, longSpeech } from '../support/speech.ts';
import { Workplace } from '../support/workplace.ts';

let redis: TestRedis;
let s3: S3Server;
let bucket: string;
let serving: Workplace;
let working: Workplace;
let client: WavepoolClient;

beforeAll(async () => {
  redis = await startRedis();
  s3 = await S3Server.start();
  bucket = await s3.makeBucket();
  serving = await Workplace.create();
  working = await Workplace.create();
  const { address } = redis;
  const url = address.kind === 'socket' ? `unix://${address.path}` : address.url;
  const shared = ['--redis', url, '--storage', `s3://${bucket}/shared`];
  const env = { ...S3_ENVIRONMENT, WAVEPOOL_S3_ENDPOINT: s3.endpoint };
  const worker = working.command('worker', [...shared, '--workers', '1'], { env });
  const server = serving.command('serve', [...shared, '--port', '0'], { env });
  client = new WavepoolClient({ baseUrl: await server.before(server.firstLine()) });
  await worker.before(worker.said('serving '));
});
afterAll(async () => {
  await serving[Symbol.asyncDispose]();
  await working[Symbol.asyncDispose]();
  await redis[Symbol.asyncDispose]();
  await s3[Symbol.asyncDispose]();
});

test('a file put into the bucket is transcribed elsewhere and read through the API', async () => {
  const upload = await client.uploads.createDirect(BASE_CLIP.path);
  const job = await client.jobs.submit({ uploadId: upload.id, name: upload.name });
  await client.jobs.waitFor(job.id);
  const transcript = await client.jobs.result(job.id);
  expect(transcript.text.toLowerCase()).toContain('ask not');
  expect(transcript.input.name).toBe('jfk.mp3');
  expect(await client.jobs.result(job.id, 'json', { direct: true })).toEqual(transcript);
  for (const { dataDir } of [serving, working]) {
    expect(existsSync(join(dataDir, 'results'))).toBe(false);
    expect(existsSync(join(dataDir, 'uploads'))).toBe(false);
  }
});

test('a job whose store dies while it runs commits when another one is there', async () => {
  const recording = join(working.inputs, 'long.wav');
  await longSpeech(recording, 300);
  const { id } = await client.uploads.createDirect(recording);
  const job = await client.jobs.submit({ uploadId: id });
  // By then the input has been read to its end: a dead store takes nothing with it that the job needs.
  for await (const event of client.jobs.events(job.id)) {
    if (event.type === 'job.progress' && event.progress.phase === 'running') break;
  }
  await s3.replace(bucket);
  await client.jobs.waitFor(job.id);
  expect((await client.jobs.result(job.id)).text).not.toBe('');
});

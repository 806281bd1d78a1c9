/** Names that URLs, headers and file systems trip over, on their way through the service. */
import { copyFile, mkdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { JobResource } from '../../../src/core/http/api.ts';
import { Transcript } from '../../../src/core/results/job-result.ts';
import { Service } from '../../support/service.ts';
import { expectSaid, speechClip } from '../../support/speech.ts';

const NAMES = [
  'Привет, мир.flac',
  '日本語の録音.flac',
  '🎙️ emoji.flac',
  'caf\u00e9.flac',
  'cafe\u0301.flac',
  'two  words.flac',
  'semi;colon.flac',
  `it's "quoted".flac`,
  'hash#tag.flac',
  'percent%20sign.flac',
  'a&b=c?d+e.flac',
  '-leading.flac',
  'dots..inside.flac',
  `${'ж'.repeat(100)}.flac`,
  `каталог; 'é' "#1" & -/-i ..flac`,
];
/** Neighbors differ in what is said: those that are the same to the eye, composed and decomposed, are told apart. */
const FILES = NAMES.map((file, at) => ({
  file,
  clip: speechClip(at % 2 === 0 ? 'sense-0880.flac' : 'sense-0930.flac'),
}));

let service: Service;

beforeAll(async () => {
  service = await Service.start();
  for (const { file, clip } of FILES) {
    await mkdir(dirname(inside(file)), { recursive: true });
    await copyFile(clip.path, inside(file));
  }
});

afterAll(() => service[Symbol.asyncDispose]());

function inside(file: string): string {
  return join(service.place.inputs, file);
}

test.each(FILES)('plain requests: $file', async ({ file, clip }) => {
  const answers = [await service.postForm(inside(file)), await service.postPath(inside(file))];
  for (const { status, headers, body } of answers) {
    expect(status).toBe(202);
    const added = JobResource.parse(body);
    expect(headers.get('location')).toBe(added.links.self);
    const job = await service.jobAtEnd(added);
    expect(job).toMatchObject({ id: added.id, state: 'completed', input: added.input });
    expect(job.input.name).toBe(basename(file));
    const { body: transcript } = await service.request(job.links.result);
    expectSaid(Transcript.parse(transcript).text, clip.reference);
  }
  const [, byPath] = answers;
  expect(JobResource.parse(byPath?.body).input.path).toBe(inside(file));
});

test.each(FILES)('the client: $file', async ({ file, clip }) => {
  const { jobs } = service.client;
  for (const source of [{ file: inside(file) }, { serverPath: inside(file) }]) {
    const { id, input } = await jobs.submit(source);
    expect(input.name).toBe(basename(file));
    await jobs.waitFor(id);
    expectSaid(await jobs.result(id, 'txt'), clip.reference);
  }
});

test('every job is listed once, under its name', async () => {
  const names: string[] = [];
  for await (const { input } of service.client.jobs.list({ pageSize: 7 })) names.push(input.name);
  const expected = NAMES.flatMap((file) => Array.from({ length: 4 }, () => basename(file)));
  expect(names.toSorted()).toEqual(expected.toSorted());
});

import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { JobRequest, JobResource } from '../../../src/core/http/api.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { SegmentWriter } from '../../../src/queue/events/segment-stream.ts';
import { PresencePublisher } from '../../../src/queue/fleet/presence.ts';
import { CHROMIUM, launchBrowser, openPage } from '../../support/browser.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { modelStatusOf, presenceOf } from '../../support/presence.ts';
import { startTranscriber } from '../../support/transcriber.ts';
import { startWorker } from '../../support/worker.ts';

const TIMEOUT_MS = 60_000;
const HOSTILE = '<img src=x onerror="alert(1)">';

/** A recording whose transcript is the given text, by the word of the test's worker. */
function recording(name: string, text: string) {
  return { name, mimeType: 'audio/wav', buffer: Buffer.from(text) };
}

async function submit(page: Page, file: ReturnType<typeof recording>): Promise<void> {
  await page.goto('/dashboard/upload');
  await page.getByLabel('Recording').setInputFiles(file);
  await page.getByRole('button', { name: 'Transcribe', exact: true }).click();
}

describe.skipIf(CHROMIUM === undefined)('the pages in a browser', { timeout: TIMEOUT_MS }, () => {
  let browser: Browser;
  let server: TestServer;
  let worker: AsyncDisposable;
  beforeAll(async () => {
    browser = await launchBrowser();
    server = await startTestServer();
    const { redis, services, uploadsDir } = server;
    worker = await startTranscriber({
      address: redis.address,
      model: TEST_MODEL,
      results: services.results,
      places: { uploadsDir },
    });
  }, TIMEOUT_MS);
  afterAll(async () => {
    await worker[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    await browser.close();
  });

  test('a recording is sent, and its transcript is shown and can be taken along', async () => {
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await submit(page, recording('speech.wav', 'well done'));
    await page.getByRole('button', { name: 'well done' }).waitFor();
    await page.getByText('completed', { exact: true }).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'SubRip' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('speech.srt');
    await page.getByRole('link', { name: 'Job details' }).click();
    await page.getByRole('heading', { name: 'speech.wav' }).waitFor();
    await page.getByText('well done').waitFor();
    expect(complaints).toEqual([]);
  });

  test('a call shows who speaks, when each word is said and how sure that is', async () => {
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await page.goto('/dashboard/upload');
    await page.getByLabel('Words with times').check();
    await page.getByLabel('A speaker per channel').check();
    await page.getByLabel('Language').fill('de-AT');
    await page.getByLabel('Recording').setInputFiles(recording('call.wav', 'call one two <b>'));
    const posted = page.waitForRequest((request) => request.url().endsWith('/v1/jobs'));
    await page.getByRole('button', { name: 'Transcribe', exact: true }).click();
    const { options } = JobRequest.parse((await posted).postDataJSON());
    expect(options).toMatchObject({ language: 'de-AT', words: true, channels: 'split' });
    await page.getByRole('button', { name: 'caller one' }).waitFor();
    const word = page.getByTitle('0:02.0, 50 % sure');
    expect(await word.textContent()).toBe('two');
    await page.getByRole('link', { name: 'Job details' }).click();
    await page.getByText('German', { exact: true }).waitFor();
    const rows = await page
      .getByRole('list', { name: 'Segments' })
      .getByRole('listitem')
      .allTextContents();
    expect(rows.map((row) => row.replace(/^[\d:.]+/, ''))).toEqual([
      'agent call',
      'caller one',
      'agent two',
      'caller <b>',
    ]);
    expect(complaints).toEqual([]);
  });

  test('markup in file names and transcripts stays text on every page', async () => {
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await submit(page, recording(`${HOSTILE}.wav`, HOSTILE));
    await page.getByRole('button', { name: HOSTILE }).waitFor();
    await page.getByRole('link', { name: 'Job details' }).click();
    await page.getByRole('heading', { name: HOSTILE }).waitFor();
    await page.getByText(HOSTILE, { exact: true }).waitFor();
    await page.goto('/dashboard/jobs');
    await page.getByRole('link', { name: HOSTILE }).waitFor();
    expect(await page.locator('img').count()).toBe(0);
    expect(complaints).toEqual([]);
  });

  test('a failed job tells the reason and the way out, and can be retried', async () => {
    const path = join(server.inputRoot, 'late.wav');
    await writeFile(path, 'fail FFMPEG_MISSING');
    const response = await server.post('/v1/jobs', { input: { path } });
    const { id } = JobResource.parse(await response.json());
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await page.goto(`/dashboard/jobs/${id}`);
    await page.getByRole('alert').getByText('FFMPEG_MISSING').waitFor();
    await page.getByText('Install ffmpeg on the worker machine').waitFor();
    await page.goto('/dashboard');
    await page.getByRole('table', { name: 'Recent failures' }).getByText('late.wav').click();
    await writeFile(path, 'at last');
    await page.getByRole('button', { name: 'Retry job' }).click();
    await page.getByText('at last').waitFor();
    expect(complaints).toEqual([]);
  });

  test('segments are shown as they are recognized, before the job has ended', async () => {
    const model = 'arriving';
    const { address } = server.redis;
    const release = new AbortController();
    await using queue = await AudioQueue.open({ address, model });
    const connection = await server.redis.connection();
    await using _worker = startWorker(address, model, async ({ id }) => {
      const segments = new SegmentWriter(connection, queue.name, String(id));
      segments.append({ index: 0, start: 0, end: 1, text: 'so far' });
      await segments.flushed();
      await once(release.signal, 'abort');
      throw new WavepoolError('JOB_TIMEOUT', 'as told');
    });
    const id = await queue.add({ input: { kind: 'path', path: '/audio/a.wav' }, partials: true });
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await page.goto(`/dashboard/jobs/${id}`);
    await page.getByText('so far').waitFor();
    await page.getByText('running', { exact: true }).waitFor();
    release.abort();
    await page.getByRole('alert').getByText('JOB_TIMEOUT').waitFor();
    expect(complaints).toEqual([]);
  });

  test('the overview shows the models of a worker, and what happens to them at once', async () => {
    const models = [{ id: TEST_MODEL, slots: 1, batch: 8 }];
    let model = modelStatusOf(TEST_MODEL, { generation: 4, waitingManagers: 2 });
    const { address } = server.redis;
    const presence = presenceOf({ host: 'mill', models });
    await using publisher = new PresencePublisher({
      address,
      snapshot: () => ({ ...presence, runtime: { build: 'test', models: [model] } }),
    });
    await publisher.start();
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await page.goto('/dashboard');
    const row = page
      .getByRole('table', { name: 'Live workers' })
      .getByRole('row', { name: 'mill' });
    await row.getByText('batch 8 · generation 4 · 2 managers wait').waitFor();
    model = { ...model, state: 'reconfiguring', generation: 5, waitingManagers: 0 };
    await publisher.beat();
    await row.getByText('reconfiguring').waitFor();
    await row.getByText('batch 8 · generation 5', { exact: true }).waitFor();
    expect(complaints).toEqual([]);
  });

  test('a running job is cancelled from the page that sent it', async () => {
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await submit(page, recording('endless.wav', 'hang'));
    await page.getByText('running', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('alert').getByText('Cancelled', { exact: true }).waitFor();
    expect(complaints).toEqual([]);
  });

  test('everything is reached with the keyboard alone', async () => {
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await page.goto('/dashboard/upload');
    await page.locator('#model option[value="test-model"]').waitFor({ state: 'attached' });
    await page.keyboard.press('Tab');
    expect(await page.locator(':focus').textContent()).toContain('Skip');
    await page.keyboard.press('Enter');
    // The browser is told to expect it well before the key is pressed.
    const chooser = page.waitForEvent('filechooser');
    await tabTo(page, page.getByLabel('Recording'));
    await page.keyboard.press('Enter');
    await (await chooser).setFiles(recording('keys.wav', 'by hand'));
    await tabTo(page, page.getByRole('button', { name: 'Transcribe', exact: true }));
    await page.keyboard.press('Enter');
    const segment = page.getByRole('button', { name: 'by hand' });
    await segment.waitFor();
    await tabTo(page, segment);
    await page.keyboard.press('Enter');
    expect(complaints).toEqual([]);
  });

  test('nothing sticks out of a narrow screen', async () => {
    const name = `${'very-long-name-'.repeat(12)}.wav`;
    await using opened = await openPage(browser, server.url, {
      viewport: { width: 360, height: 740 },
      colorScheme: 'dark',
    });
    const { page } = opened;
    await submit(page, recording(name, 'word '.repeat(200)));
    await page.getByText('completed', { exact: true }).waitFor();
    expect(await page.evaluate(OVERFLOW)).toBe(0);
    const address = await page.getByRole('link', { name: 'Job details' }).getAttribute('href');
    for (const place of ['/dashboard', '/dashboard/jobs', String(address), '/docs', '/login']) {
      await page.goto(place);
      await page.waitForLoadState('networkidle');
      expect([place, await page.evaluate(OVERFLOW)]).toEqual([place, 0]);
    }
  });

  test('jobs are filtered and paged', async () => {
    await using queue = await AudioQueue.open({ address: server.redis.address, model: 'paged' });
    const named = (at: number) => ({ input: { kind: 'path' as const, path: `/audio/${at}.wav` } });
    await queue.addMany(Array.from({ length: 30 }, (_, at) => named(at)));
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await page.goto('/dashboard/jobs?state=waiting&model=paged');
    const rows = page.getByRole('table', { name: 'Jobs' }).locator('tbody tr');
    await rows.nth(24).waitFor();
    expect(await rows.count()).toBe(25);
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('Page 2').waitFor();
    await expect.poll(() => rows.count()).toBe(5);
    await page.getByLabel('State').selectOption('completed');
    await page.getByText('No job matches').waitFor();
    expect(new URL(page.url()).search).toBe('?state=completed&model=paged');
    expect(complaints).toEqual([]);
  });
});

describe.skipIf(CHROMIUM === undefined)('the login', { timeout: TIMEOUT_MS }, () => {
  let browser: Browser;
  let server: TestServer;
  beforeAll(async () => {
    browser = await launchBrowser();
    server = await startTestServer();
  }, TIMEOUT_MS);
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await browser.close();
  });

  test('asks for a key, leads to the page that was wanted, and ends', async () => {
    const { key } = await server.services.keys.create('test', ['read', 'submit']);
    await using opened = await openPage(browser, server.url);
    const { page, complaints } = opened;
    await page.goto('/dashboard/jobs?state=failed');
    await page.getByLabel('API key').fill('wrong');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('alert').getByText('That did not work').waitFor();
    expect(complaints.splice(0)).toHaveLength(1);
    await page.getByLabel('API key').fill(key);
    await page.keyboard.press('Enter');
    await page.getByText('No job matches').waitFor();
    expect(new URL(page.url()).pathname).toBe('/dashboard/jobs');
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('API key').waitFor();
    await page.goto('/dashboard');
    expect(new URL(page.url()).pathname).toBe('/login');
    expect(complaints).toEqual([]);
  });

  test('leads nowhere else, whatever a link says', async () => {
    const { key } = await server.services.keys.create('test', ['read']);
    await using opened = await openPage(browser, server.url);
    const { page } = opened;
    await page.goto('/login?next=//example.com/');
    await page.getByLabel('API key').fill(key);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    expect(new URL(page.url()).host).toBe(new URL(server.url).host);
  });

  test('lets a reader look at the queues, and a manager pause one where that is allowed', async () => {
    await using managed = await startTestServer({ settings: { queuesReadOnly: false } });
    const { key } = await managed.services.keys.create('test', ['read', 'manage']);
    await using opened = await openPage(browser, managed.url);
    const { page, complaints } = opened;
    await page.goto('/dashboard/queues');
    await page.getByLabel('API key').fill(key);
    await page.keyboard.press('Enter');
    await page.getByText(TEST_MODEL).first().waitFor();
    const status = await page.evaluate(PAUSE_ALL);
    expect(status).toBe(200);
    expect(complaints).toEqual([]);
  });
});

/** As bull-board's own code calls. */
const PAUSE_ALL = `new Promise((resolve) => {
  const request = new XMLHttpRequest();
  request.open('PUT', '/dashboard/queues/api/queues/pause');
  request.addEventListener('load', () => resolve(request.status));
  request.send();
})`;

/** How far the page is wider than the window. */
const OVERFLOW = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';

/** Presses Tab until the element has the focus, for as long as a patient visitor would. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  for (let presses = 0; presses < 30; presses++) {
    if ((await target.and(page.locator(':focus')).count()) === 1) return;
    await page.keyboard.press('Tab');
  }
  throw new Error('the keyboard does not get there');
}

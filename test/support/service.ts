/** The whole service as people start it: HTTP, embedded Redis, one worker with real weights. */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { vi } from 'vitest';
import { WavepoolClient } from '../../src/client/wavepool-client.ts';
import { JobResource } from '../../src/core/http/api.ts';
import type { WavepoolProcess } from './wavepool-process.ts';
import { Workplace } from './workplace.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed JSON. */
  readonly body: unknown;
}

export class Service implements AsyncDisposable {
  /** Its inputs are the service's input root. */
  readonly place: Workplace;
  readonly command: WavepoolProcess;
  readonly url: string;
  readonly client: WavepoolClient;

  private constructor(place: Workplace, command: WavepoolProcess, url: string) {
    this.place = place;
    this.command = command;
    this.url = url;
    this.client = new WavepoolClient({ baseUrl: url });
  }

  /** Resolves when its only worker, which has one slot, is listed. */
  static async start(): Promise<Service> {
    const place = await Workplace.create();
    try {
      const capacity = ['--with-worker', '--workers', '1', '--slots', '1'];
      const roots = ['--input-root', place.inputs];
      const command = place.command('serve', [...capacity, '--port', '0', ...roots]);
      const service = new Service(place, command, await command.before(command.firstLine()));
      await vi.waitFor(() => service.#findWorker(), { timeout: 60_000 });
      return service;
    } catch (error) {
      await place[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #findWorker(): Promise<void> {
    if ((await this.client.workers.list()).length !== 1) throw new Error('there is no worker');
  }

  async request(path: string, init?: RequestInit): Promise<Answer> {
    const response = await fetch(new URL(path, this.url), init);
    return { status: response.status, headers: response.headers, body: await response.json() };
  }

  /** Adds a job as a form; the file has its own name. */
  async postForm(path: string): Promise<Answer> {
    const form = new FormData();
    form.append('file', new Blob([await readFile(path)]), basename(path));
    return this.request('/v1/jobs', { method: 'POST', body: form });
  }

  /** Adds a job for a file inside the input root. */
  postPath(path: string): Promise<Answer> {
    return this.request('/v1/jobs', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input: { path } }),
    });
  }

  /** Follows a job's event stream to its end and returns the job then. */
  async jobAtEnd({ links }: JobResource): Promise<JobResource> {
    const events = await fetch(new URL(links.events, this.url));
    await events.text();
    return JobResource.parse((await this.request(links.self)).body);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.place[Symbol.asyncDispose]();
  }
}

/** bull-board's view of a model's queue, and its place in our app. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BaseAdapter } from '@bull-board/api/baseAdapter';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import type { AppViewRoute, UIConfig } from '@bull-board/api/typings/app';
import { ExpressAdapter } from '@bull-board/express';
import type { ModelId } from '../../core/job/job.ts';
import type { BoardQueues } from '../../queue/jobs/board-queues.ts';
import type { QueueRegistry } from '../../queue/queue-registry.ts';
import { FileSet } from '../pages/file-set.ts';
import { boardData, boardFailure, boardProgress, boardReturnValue } from './board-job.ts';
import { boardPage } from './board-page.ts';

export const BOARD_PATH = '/dashboard/queues';

type BoardJobs = Awaited<ReturnType<BullMQAdapter['getJobs']>>;
type BoardJob = BoardJobs[number];

/** Shows jobs trimmed, and changes them in our own way. */
class ModelQueueAdapter extends BullMQAdapter {
  readonly #model: ModelId;
  readonly #registry: QueueRegistry;

  constructor(model: ModelId, sources: BoardSources, readOnlyMode: boolean) {
    super(sources.raw.of(model), {
      readOnlyMode,
      externalJobUrl: ({ id }) => ({
        displayText: 'Wavepool',
        href: `/dashboard/jobs/${encodeURIComponent(String(id))}`,
      }),
    });
    this.#model = model;
    this.#registry = sources.registry;
    this.setFormatter('data', boardData);
    this.setFormatter('returnValue', boardReturnValue);
    this.setFormatter('progress', boardProgress);
  }

  override async getJob(id: string): Promise<BoardJob | undefined> {
    const job = await super.getJob(id);
    return job === undefined ? undefined : this.#trim(job);
  }

  override async getJobs(...range: Parameters<BullMQAdapter['getJobs']>): Promise<BoardJobs> {
    return (await super.getJobs(...range)).map((job) => this.#trim(job));
  }

  #trim(job: BoardJob): BoardJob {
    const id = String(job.id);
    if (job.failedReason) job.failedReason = boardFailure(job.failedReason);
    job.stacktrace = [];
    job.retry = async () => {
      await (await this.#registry.queueOf(this.#model)).retry(id);
    };
    job.remove = async () => {
      await (await this.#registry.queueOf(this.#model)).remove(id);
    };
    return job;
  }
}

export interface BoardSources {
  readonly raw: BoardQueues;
  readonly registry: QueueRegistry;
}

export function adapterOf(model: ModelId, sources: BoardSources, isReadOnly: boolean): BaseAdapter {
  return new ModelQueueAdapter(model, sources, isReadOnly);
}

/** Hashed names never change their content. */
const HASHED = /\.[0-9a-f]{8,}\./;
const FOR_GOOD = 'public, max-age=31536000, immutable';
const FOR_AN_HOUR = 'public, max-age=3600';

/** As bull-board's own, but its page keeps to our content policy and its files are sent compressed. */
export class BoardServer extends ExpressAdapter {
  #page = '';

  constructor() {
    super();
    this.app.disable('x-powered-by').set('etag', false);
  }

  override setViewsPath(folder: string): this {
    this.#page = readFileSync(join(folder, 'index.ejs'), 'utf8');
    return this;
  }

  override setStaticPath(route: string, folder: string): this {
    const files = new FileSet(folder);
    this.app.get(`${route}/*name`, async (req, res) => {
      const name = req.params.name.join('/');
      await files.send(req, res, name, HASHED.test(name) ? FOR_GOOD : FOR_AN_HOUR);
    });
    return this;
  }

  override setEntryRoute({ route, handler }: AppViewRoute): this {
    this.app.get(route, (_req, res) => {
      const { params } = handler({ basePath: this.basePath, uiConfig: this.uiConfig as UIConfig });
      // Its components bring their styles along in the page; scripts stay as strict as everywhere.
      const policy = String(res.getHeader('Content-Security-Policy') ?? '');
      const relaxed = policy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'");
      res.set('Content-Security-Policy', relaxed);
      res.set('Cache-Control', 'no-cache').type('html').send(boardPage(this.#page, params));
    });
    return this;
  }
}

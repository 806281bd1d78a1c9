/** What bull-board shows of a model's queue, and how its page and files are served. */

import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { BaseAdapter } from '@bull-board/api/baseAdapter';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import type { AppViewRoute, UIConfig } from '@bull-board/api/typings/app';
import { ExpressAdapter } from '@bull-board/express';
import { parseFailure } from '../../core/errors.ts';
import { JobData, JobOutcome, JobProgress, type ModelId } from '../../core/job/job.ts';
import type { BoardQueues } from '../../queue/jobs/board-queues.ts';
import type { QueueRegistry } from '../../queue/queue-registry.ts';
import { assetUrl } from '../pages/assets.ts';
import { FileSet } from '../pages/file-set.ts';
import { Html, html } from '../pages/html.ts';
import { inputResource } from '../resources/job-resource.ts';

export const BOARD_PATH = '/dashboard/queues';

type BoardJobs = Awaited<ReturnType<BullMQAdapter['getJobs']>>;
type BoardJob = BoardJobs[number];

/** Leaves out what the board may not show of a job, and retries and removes jobs through our own queue. */
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
    this.setFormatter('data', shownData);
    this.setFormatter('returnValue', shownOutcome);
    this.setFormatter('progress', shownProgress);
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
    if (job.failedReason) job.failedReason = shownFailure(job.failedReason);
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

/** The board shows no transcript, no secret, and of a path only the file's name. */
function shownData(raw: unknown): unknown {
  const parsed = JobData.safeParse(raw);
  if (!parsed.success) return {};
  const { input, task, model, tenant, clocks, crashCount, partials } = parsed.data;
  const { kind, name } = inputResource(input);
  return { input: { kind, name }, task, model, tenant, clocks, crashCount, partials };
}

function shownOutcome(raw: unknown): unknown {
  const parsed = JobOutcome.safeParse(raw);
  if (!parsed.success) return null;
  const { resultKey: _, ...outcome } = parsed.data;
  return outcome;
}

function shownProgress(raw: unknown): unknown {
  return JobProgress.safeParse(raw).data ?? 0;
}

/** Matches a path in a message; only the file's name at its end is shown. */
const FOLDERS = /(?<![\w.:/])(?:\/[^/\s'"]+)+/g;

function shownFailure(reason: string): string {
  const { code, message } = parseFailure(reason);
  return `${code}: ${message.replace(FOLDERS, (path) => basename(path))}`;
}

export interface BoardSources {
  readonly raw: BoardQueues;
  readonly registry: QueueRegistry;
}

export function adapterOf(model: ModelId, sources: BoardSources, isReadOnly: boolean): BaseAdapter {
  return new ModelQueueAdapter(model, sources, isReadOnly);
}

/** A file with a hash in its name never changes. */
const HASHED = /\.[0-9a-f]{8,}\./;
const FOR_GOOD = 'public, max-age=31536000, immutable';
const FOR_AN_HOUR = 'public, max-age=3600';

/** Serves bull-board as its own adapter does, but the page keeps to our content policy and the files are compressed. */
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
      // The board's components put styles into the page. Scripts are as restricted as on every other page.
      const policy = String(res.getHeader('Content-Security-Policy') ?? '');
      const relaxed = policy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'");
      res.set('Content-Security-Policy', relaxed);
      res.set('Cache-Control', 'no-cache').type('html').send(boardPage(this.#page, params));
    });
    return this;
  }
}

/**
 * bull-board's page without inline styles and foreign fonts, which our content policy forbids.
 * @param template bull-board's own page, which names its scripts and styles
 */
function boardPage(template: string, { basePath, uiConfig, title }: Record<string, string>) {
  const styles = [...template.matchAll(/<link href="(static\/[^"]+\.css)"/g)];
  const scripts = [...template.matchAll(/<script defer src="(static\/[^"]+\.js)"/g)];
  const document = html`<!doctype html>
<html lang="en" dir="ltr">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<base href="${basePath ?? ''}">
<title>${title ?? ''}</title>
<link rel="icon" href="${assetUrl('icon.svg')}" type="image/svg+xml">
${styles.map(([, address = '']) => html`<link rel="stylesheet" href="${address}">`)}
</head>
<body>
<script id="__UI_CONFIG__" type="application/json">${new Html(uiConfig ?? '{}')}</script>
<div id="root"></div>
<script defer src="${assetUrl('board.js')}"></script>
${scripts.map(([, address = '']) => html`<script defer src="${address}"></script>`)}
</body>
</html>
`;
  return document.text;
}

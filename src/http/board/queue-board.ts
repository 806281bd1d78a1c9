/**
 * bull-board for the queues of all models, behind our own login. A caller with the scope `read` may look. One with `manage`
 * may act, when the settings allow it.
 */
import { createBullBoard } from '@bull-board/api';
import express, { type RequestHandler } from 'express';
import type { ModelId } from '../../core/job/job.ts';
import { BoardQueues } from '../../queue/jobs/board-queues.ts';
import { authenticate, loginAddress } from '../auth/authenticate.ts';
import { assertAllowed } from '../auth/caller.ts';
import { assetUrl } from '../pages/assets.ts';
import { requestContext } from '../request/request-context.ts';
import type { Services } from '../services.ts';
import { adapterOf, BOARD_PATH, BoardServer, type BoardSources } from './board-adapter.ts';

const READING = new Set(['GET', 'HEAD']);

/** The only changes that the board may make. Others would skip the checks of our own interface, or lose parts of a job. */
const ACTIONS = new Set([
  'put /api/queues/pause',
  'put /api/queues/resume',
  'put /api/queues/:queueName/pause',
  'put /api/queues/:queueName/resume',
  'put /api/queues/:queueName/promote',
  'put /api/queues/:queueName/retry/:queueStatus',
  'put /api/queues/:queueName/concurrency',
  'put /api/queues/:queueName/rate-limit',
  'put /api/queues/:queueName/rate-limit/release',
  'put /api/queues/:queueName/:jobId/retry',
  'put /api/queues/:queueName/:jobId/promote',
  'put /api/queues/:queueName/:jobId/clean',
  'patch /api/queues/:queueName/:jobId/delay',
  'patch /api/queues/:queueName/:jobId/priority',
]);

export function queueBoard(services: Services): RequestHandler {
  const { queues, settings } = services;
  const sources = { raw: new BoardQueues(queues.connection), registry: queues };
  const readOnly = new Board(sources, true);
  const writable = settings.queuesReadOnly ? readOnly : new Board(sources, false);
  const guard: RequestHandler = async (req, res, next) => {
    const isPage = !/^\/(api|static)\//.test(req.path);
    if (isPage) {
      const login = await loginAddress(req, services);
      if (login !== undefined) return res.redirect(login);
      return next();
    }
    const caller = await authenticate(req, services);
    assertAllowed(caller, { scope: READING.has(req.method) ? 'read' : 'manage' });
    requestContext(res).caller = caller;
    next();
  };
  const show: RequestHandler = async (req, res, next) => {
    const board = requestContext(res).caller.scopes.includes('manage') ? writable : readOnly;
    if (req.path.startsWith('/api/')) board.show(await queues.models());
    board.handler(req, res, next);
  };
  return express.Router().use(guard, show);
}

class Board {
  readonly handler: RequestHandler;
  readonly #known = new Set<ModelId>();
  readonly #add: (model: ModelId) => void;

  constructor(sources: BoardSources, isReadOnly: boolean) {
    const server = new BoardServer().setBasePath(BOARD_PATH);
    const { addQueue } = createBullBoard({
      queues: [],
      serverAdapter: server,
      options: {
        uiConfig: {
          boardTitle: 'Wavepool queues',
          boardLogo: { path: assetUrl('icon.svg'), width: 28, height: 28 },
          miscLinks: [{ text: 'Wavepool overview', url: '/dashboard' }],
          hideDocsLink: true,
          // Our overview shows the workers.
          showWorkers: false,
        },
        handlerHooks: {
          before: ({ method, route }) => ({
            allow: method === 'get' || ACTIONS.has(`${method} ${route}`),
          }),
        },
      },
    });
    this.#add = (model) => addQueue(adapterOf(model, sources, isReadOnly));
    this.handler = server.getRouter();
  }

  show(models: readonly ModelId[]): void {
    for (const model of models) {
      if (this.#known.has(model)) continue;
      this.#known.add(model);
      this.#add(model);
    }
  }
}

/** Models and workers, as the workers publish them. */

import { WavepoolError } from '../../core/errors.ts';
import { ModelList, ModelParams, ModelResource, WorkerList } from '../../core/http/api.ts';
import type { ModelStatus, WorkerPresence } from '../../core/worker/status.ts';
import { readOverview } from '../../queue/fleet/overview.ts';
import { readPresence } from '../../queue/fleet/presence.ts';
import { route } from '../request/route.ts';
import type { Services } from '../services.ts';

type LoadedModel = Pick<ModelStatus, 'state' | 'slots' | 'activeSlots'>;

const listModels = route({
  method: 'get',
  path: '/v1/models',
  name: 'listModels',
  tag: 'models',
  summary: 'Models that can be asked for, with their queues',
  description: 'A job for a model without a live worker waits for one.',
  scope: 'read',
  forTenants: true,
  isOpenAi: true,
  responses: { 200: { description: 'All of them.', schema: ModelList } },
  handle: async ({ services }) => ({
    status: 200,
    json: { object: 'list', data: await readModels(services) },
  }),
});

const getModel = route({
  method: 'get',
  path: '/v1/models/:id',
  name: 'getModel',
  tag: 'models',
  summary: 'One model',
  scope: 'read',
  forTenants: true,
  isOpenAi: true,
  params: ModelParams,
  responses: { 200: { description: 'As it stands.', schema: ModelResource } },
  errors: ['MODEL_UNKNOWN'],
  handle: async ({ params, services }) => {
    const model = (await readModels(services)).find(({ id }) => id === params.id);
    if (model === undefined) throw new WavepoolError('MODEL_UNKNOWN', params.id);
    return { status: 200, json: model };
  },
});

async function readModels({ queues: registry }: Services): Promise<ModelResource[]> {
  const [ids, overview] = await Promise.all([
    registry.models(),
    readOverview(registry.connection, 0),
  ]);
  const queues = new Map(overview.queues.map((queue) => [queue.model, queue]));
  return ids.map((id) => {
    const queue = queues.get(id);
    return {
      id,
      object: 'model',
      created: 0,
      owned_by: 'wavepool',
      workers: queue?.workers ?? 0,
      ...capacityOf(id, overview.workers),
      queue: queue?.counts ?? NO_JOBS,
    };
  });
}

const NO_JOBS = { waiting: 0, delayed: 0, running: 0, completed: 0, failed: 0 };

/** Adds up the workers that serve the model. Its state is `ready` only when it is ready in all of them. */
function capacityOf(id: string, workers: readonly WorkerPresence[]) {
  const entries = workers
    .filter(({ models }) => models.some((served) => served.id === id))
    .flatMap(({ runtime }): LoadedModel[] => runtime.models.filter((model) => model.id === id));
  const sum = (of: (entry: LoadedModel) => number): number =>
    entries.reduce((total, entry) => total + of(entry), 0);
  const worst = entries.find(({ state }) => state !== 'ready') ?? entries[0];
  return {
    state: worst?.state ?? ('unserved' as const),
    slots: sum(({ slots }) => slots),
    activeSlots: sum(({ activeSlots }) => activeSlots),
  };
}

const listWorkers = route({
  method: 'get',
  path: '/v1/workers',
  name: 'listWorkers',
  tag: 'workers',
  summary: 'Live workers with their latest status',
  scope: 'read',
  responses: { 200: { description: 'In the order of their start.', schema: WorkerList } },
  handle: async ({ services: { queues } }) => ({
    status: 200,
    json: { items: await readPresence(queues.connection) },
  }),
});

export const fleetRoutes = [listModels, getModel, listWorkers];

/** Commands that change the models of running workers. */

import { type ErrorCode, WavepoolError } from '../../core/errors.ts';
import { ModelParams } from '../../core/http/api.ts';
import {
  answerOf,
  ControlAnswer,
  LoadModelRequest,
  ReconfigureModelRequest,
  UnloadModelRequest,
  UnloadModelsRequest,
} from '../../core/http/control-api.ts';
import { ModelId } from '../../core/job/job.ts';
import type { ControlCommandInput } from '../../core/worker/control.ts';
import type { ControlTargets } from '../../queue/fleet/control.ts';
import { type Reply, type RouteRequest, route } from '../request/route.ts';

const DONE = {
  200: {
    description: 'At least one worker did it; what each of them did, or why it did not.',
    schema: ControlAnswer,
  },
};
const ERRORS: readonly ErrorCode[] = [
  'MODEL_UNKNOWN',
  'NO_WORKER',
  'WORKER_GONE',
  'CONTROL_TIMEOUT',
  'BUSY_TIMEOUT',
  'BUSY_OVERDUE',
];
const CONFIGURATION_ERRORS: readonly ErrorCode[] = [
  ...ERRORS,
  'SLOTS_UNSUPPORTED',
  'CAPACITY_UNVALIDATED',
  'INSUFFICIENT_MEMORY',
  'MODEL_LOAD_FAILED',
  'MODEL_FILE_INVALID',
];

const loadModel = route({
  method: 'post',
  path: '/v1/models/:id/load',
  name: 'loadModel',
  tag: 'models',
  summary: 'Load a model in the workers',
  description:
    'In workers that have it registered it is loaded, with `settings` reconfigured. When none has, all register it from their models directory and serve its queue from then on. Answers when every worker has; a client that goes takes back what has not begun.',
  scope: 'manage',
  params: ModelParams,
  body: LoadModelRequest,
  responses: DONE,
  errors: CONFIGURATION_ERRORS,
  handle: async (request) => {
    const { settings, ...addressing } = request.body;
    const model = modelOf(request.params);
    return send({ operation: 'load', model, settings }, addressing, request);
  },
});

const unloadModel = route({
  method: 'post',
  path: '/v1/models/:id/unload',
  name: 'unloadModel',
  tag: 'models',
  summary: 'Free the memory of a model',
  description:
    'What was asked of the model before ends first. Its queue is served on: the next job loads it again.',
  scope: 'manage',
  params: ModelParams,
  body: UnloadModelRequest,
  responses: DONE,
  errors: ERRORS,
  handle: async (request) => {
    const model = modelOf(request.params);
    return send({ operation: 'unload', model }, request.body, request);
  },
});

const reconfigureModel = route({
  method: 'post',
  path: '/v1/models/:id/reconfigure',
  name: 'reconfigureModel',
  tag: 'models',
  summary: 'Change the slots, batch, threads or timeouts of a model',
  description:
    'Settings that are left out keep their values, or with `replace` fall back to their defaults. What was asked of the model before ends on the old configuration, what comes later runs on the new one. `load-first` keeps the old one when the new one fails, and needs memory for both.',
  scope: 'manage',
  params: ModelParams,
  body: ReconfigureModelRequest,
  responses: DONE,
  errors: CONFIGURATION_ERRORS,
  handle: async (request) => {
    const { settings, replace, strategy, ...addressing } = request.body;
    const model = modelOf(request.params);
    const command = { operation: 'reconfigure', model, settings, replace, strategy } as const;
    return send(command, addressing, request);
  },
});

const unloadModels = route({
  method: 'post',
  path: '/v1/models/unload',
  name: 'unloadModels',
  tag: 'models',
  summary: 'Free the memory of several models, or of all',
  description:
    'Each worker frees idle models first, then the others as their work ends; `models` has them in that order. Models that a worker does not have are in `notFound`.',
  scope: 'manage',
  body: UnloadModelsRequest,
  responses: DONE,
  errors: ERRORS.filter((code) => code !== 'MODEL_UNKNOWN'),
  handle: async (request) => {
    const { models, ...addressing } = request.body;
    return send({ operation: 'unload-many', models }, addressing, request);
  },
});

interface Addressing {
  readonly workers: ControlTargets;
  readonly timeoutMs: number;
}

async function send(
  command: ControlCommandInput,
  { workers, timeoutMs }: Addressing,
  {
    services,
    signal,
    logger,
  }: Pick<RouteRequest<unknown, unknown, unknown, unknown>, 'services' | 'signal' | 'logger'>,
): Promise<Reply> {
  logger.info({ command, workers }, 'models are controlled');
  const outcomes = await services.control.send(command, { workers, timeoutMs, signal });
  return { status: 200, json: answerOf(outcomes) };
}

/** @throws {WavepoolError} MODEL_UNKNOWN for an id that no model can have */
function modelOf({ id }: { readonly id: string }): ModelId {
  const parsed = ModelId.safeParse(id);
  if (!parsed.success) throw new WavepoolError('MODEL_UNKNOWN', id);
  return parsed.data;
}

export const controlRoutes = [loadModel, unloadModel, reconfigureModel, unloadModels];

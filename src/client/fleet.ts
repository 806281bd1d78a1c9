/** What serves the jobs. */
import {
  ModelList,
  type ModelResource,
  WorkerList,
  type WorkerResource,
} from '../core/http/api.ts';
import {
  ControlAnswer,
  type LoadModelBody,
  type ReconfigureModelBody,
  type UnloadModelBody,
  type UnloadModelsBody,
} from '../core/http/control-api.ts';
import { RateLimitResource } from '../core/http/tenant-api.ts';
import type { RateLimit } from '../core/job/tenant.ts';
import type { ControlOutcome } from '../core/worker/control.ts';
import { answerAs, noAnswer } from './answers.ts';
import { apiPath, type CallOptions, type Transport } from './transport.ts';

/** The answer of a server takes a moment longer than those of its workers. */
const ANSWER_MARGIN_MS = 30_000;
/** The server's own limit when none is given. */
const CONTROL_TIMEOUT_MS = 600_000;

export class Models {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Models that can be asked for, with their queues. */
  async list({ signal }: CallOptions = {}): Promise<ModelResource[]> {
    const request = { method: 'GET', path: '/v1/models', signal } as const;
    const { data } = await this.#transport.send(request, answerAs(ModelList));
    return data;
  }

  /**
   * Loads a model in the workers that have it, or in all when none has. What each worker did is in the answer.
   * @throws {ControlFailedError} when none did; {WavepoolError} MODEL_UNKNOWN, NO_WORKER; the signal's reason when it
   *   aborts, which takes back what has not begun
   */
  async load(model: string, body: LoadModelBody & CallOptions = {}): Promise<ControlOutcome[]> {
    return this.#control(apiPath`/v1/models/${model}/load`, body);
  }

  /** Frees its memory once earlier work has ended; its next job loads it again. Fails as `load` does. */
  async unload(model: string, body: UnloadModelBody & CallOptions = {}): Promise<ControlOutcome[]> {
    return this.#control(apiPath`/v1/models/${model}/unload`, body);
  }

  /** Changes the settings that are given, for what comes later. Fails as `load` does. */
  async reconfigure(
    model: string,
    body: ReconfigureModelBody & CallOptions,
  ): Promise<ControlOutcome[]> {
    return this.#control(apiPath`/v1/models/${model}/reconfigure`, body);
  }

  /** Idle ones first, then the others as their work ends. Fails as `load` does. */
  async unloadMany(
    models: UnloadModelsBody['models'],
    body: UnloadModelBody & CallOptions = {},
  ): Promise<ControlOutcome[]> {
    return this.#control('/v1/models/unload', { ...body, models });
  }

  /** How many jobs of the model may start in a time; undefined without a limit. */
  async rateLimit(model: string, { signal }: CallOptions = {}): Promise<RateLimit | undefined> {
    const path = apiPath`/v1/models/${model}/rate-limit`;
    const request = { method: 'GET', path, signal } as const;
    const { rateLimit } = await this.#transport.send(request, answerAs(RateLimitResource));
    return rateLimit ?? undefined;
  }

  /** Over all workers, for what starts from now on; undefined ends the limit. */
  async setRateLimit(
    model: string,
    limit: RateLimit | undefined,
    { signal }: CallOptions = {},
  ): Promise<void> {
    const path = apiPath`/v1/models/${model}/rate-limit`;
    if (limit === undefined)
      await this.#transport.send({ method: 'DELETE', path, signal }, noAnswer);
    else
      await this.#transport.send(
        { method: 'PUT', path, json: limit, signal },
        answerAs(RateLimitResource),
      );
  }

  async #control(
    path: string,
    { signal, ...json }: CallOptions & UnloadModelBody & Partial<UnloadModelsBody>,
  ): Promise<ControlOutcome[]> {
    const { timeoutMs = CONTROL_TIMEOUT_MS } = json;
    const { outcomes } = await this.#transport.send(
      {
        method: 'POST',
        path,
        json,
        signal,
        timeoutMs: timeoutMs === 0 ? 0 : timeoutMs + ANSWER_MARGIN_MS,
      },
      answerAs(ControlAnswer),
    );
    return outcomes;
  }
}

export class Workers {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Live workers with their latest status. */
  async list({ signal }: CallOptions = {}): Promise<WorkerResource[]> {
    const request = { method: 'GET', path: '/v1/workers', signal } as const;
    const { items } = await this.#transport.send(request, answerAs(WorkerList));
    return items;
  }
}

/** What serves the jobs. */
import { ModelList, type ModelResource, WorkerList, type WorkerResource } from '../core/api.ts';
import { answerAs } from './read-answer.ts';
import type { Transport } from './transport.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

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

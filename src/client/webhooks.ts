/** What became of webhooks, and the secrets that sign them. */
import { DeliveryList, DeliveryResource, SecretResource } from '../core/http/webhook-message.ts';
import { answerAs } from './answers.ts';
import { apiPath, type CallOptions, type Transport } from './transport.ts';

export class Webhooks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Deliveries about a job, one for each time that it ended.
   * @throws {WavepoolError} JOB_NOT_FOUND
   */
  async ofJob(id: string, options: CallOptions = {}): Promise<DeliveryResource[]> {
    return this.#list(apiPath`/v1/jobs/${id}/deliveries`, options);
  }

  /**
   * Deliveries about a batch itself; its items have their own.
   * @throws {WavepoolError} BATCH_NOT_FOUND
   */
  async ofBatch(id: string, options: CallOptions = {}): Promise<DeliveryResource[]> {
    return this.#list(apiPath`/v1/batches/${id}/deliveries`, options);
  }

  /** @throws {WavepoolError} DELIVERY_NOT_FOUND */
  async get(id: string, { signal }: CallOptions = {}): Promise<DeliveryResource> {
    const request = { method: 'GET', path: apiPath`/v1/deliveries/${id}`, signal } as const;
    return this.#transport.send(request, answerAs(DeliveryResource));
  }

  /**
   * Sends a delivery once more, under the same id.
   * @throws {WavepoolError} DELIVERY_NOT_FOUND
   */
  async redeliver(id: string, { signal }: CallOptions = {}): Promise<DeliveryResource> {
    const path = apiPath`/v1/deliveries/${id}/redeliver`;
    const request = { method: 'POST', path, signal } as const;
    return this.#transport.send(request, answerAs(DeliveryResource));
  }

  /** What signs the deliveries of a tenant, or of those who have no secret of their own. Needs the scope manage. */
  async secret(tenant?: string, { signal }: CallOptions = {}): Promise<SecretResource> {
    const request = {
      method: 'GET',
      path: '/v1/webhooks/secret',
      query: { tenant },
      signal,
    } as const;
    return this.#transport.send(request, answerAs(SecretResource));
  }

  /**
   * Makes a new secret. Needs the scope manage.
   * @param keepOldMs how long the one before stays valid, too; a day when left out
   */
  async rotateSecret(
    { tenant, keepOldMs }: { readonly tenant?: string; readonly keepOldMs?: number } = {},
    { signal }: CallOptions = {},
  ): Promise<SecretResource> {
    const path = '/v1/webhooks/secret/rotate';
    const request = { method: 'POST', path, json: { tenant, keepOldMs }, signal } as const;
    return this.#transport.send(request, answerAs(SecretResource));
  }

  async #list(path: string, { signal }: CallOptions): Promise<DeliveryResource[]> {
    const request = { method: 'GET', path, signal } as const;
    return (await this.#transport.send(request, answerAs(DeliveryList))).items;
  }
}

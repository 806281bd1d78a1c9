/** Who may use the server, and for whom. Needs the scope manage. */
import {
  ApiKeyList,
  type ApiKeyRequestBody,
  type ApiKeyResource,
  CreatedApiKeyResource,
} from '../core/http/api-key.ts';
import { answerAs, noAnswer } from './answers.ts';
import { apiPath, type CallOptions, type Transport } from './transport.ts';

export class ApiKeys {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Oldest first. */
  async list({ signal }: CallOptions = {}): Promise<ApiKeyResource[]> {
    const request = { method: 'GET', path: '/v1/keys', signal } as const;
    return (await this.#transport.send(request, answerAs(ApiKeyList))).items;
  }

  /**
   * Makes a key, which is in this answer and nowhere else; with a `tenant`, for that tenant's work alone.
   * @throws {WavepoolError} INVALID_REQUEST; FORBIDDEN for scopes that the caller has not
   */
  async create(
    wanted: ApiKeyRequestBody,
    { signal }: CallOptions = {},
  ): Promise<CreatedApiKeyResource> {
    const request = { method: 'POST', path: '/v1/keys', json: wanted, signal } as const;
    return this.#transport.send(request, answerAs(CreatedApiKeyResource));
  }

  /** Idempotent. Its logins are worth nothing from now on, too. */
  async revoke(id: string, { signal }: CallOptions = {}): Promise<void> {
    const path = apiPath`/v1/keys/${id}`;
    await this.#transport.send({ method: 'DELETE', path, signal }, noAnswer);
  }
}

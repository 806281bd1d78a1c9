/** Control of the models in all workers: a command goes to each worker that it concerns, and each answers for itself. */
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { parseRequestPart } from '../../core/http/problem.ts';
import {
  ControlCommand,
  type ControlCommandInput,
  type ControlOutcome,
} from '../../core/worker/control.ts';
import type { WorkerPresence } from '../../core/worker/status.ts';
import { type RedisAddress, toRedisError } from '../redis/connection.ts';
import { controlQueuesKey } from '../redis/queue-names.ts';
import { type ControlEnd, ControlLine, removeControlQueue } from './control-line.ts';
import { HEARTBEAT_MS, readPresence } from './presence.ts';

/** `concerned`: those that have the model registered, or all when a model is to be loaded that none has. */
export type ControlTargets = 'concerned' | 'all' | readonly string[];

export interface SendOptions {
  /** @defaultValue 'concerned' */
  readonly workers?: ControlTargets | undefined;
  /** For an answer; 0 = no bound. The command of a worker that is late is withdrawn. @defaultValue 0 */
  readonly timeoutMs?: number | undefined;
  /** Withdraws the commands that have not begun. */
  readonly signal?: AbortSignal | undefined;
}

export interface FleetControlOptions {
  readonly address: RedisAddress;
  /** For single commands; stays open for as long as this is used. */
  readonly connection: Redis;
  /** How often it is looked whether workers that owe an answer are still there. @defaultValue `HEARTBEAT_MS` */
  readonly lookIntervalMs?: number | undefined;
}

interface Asked {
  readonly worker: WorkerPresence;
  readonly gone: AbortController;
  line: ControlLine | undefined;
}

/** It holds nothing that must be closed. */
export class FleetControl {
  readonly #options: FleetControlOptions;

  constructor(options: FleetControlOptions) {
    this.#options = options;
  }

  /**
   * Resolves when every worker has answered, is gone or is late; in the order in which they started.
   * @throws {WavepoolError} INVALID_REQUEST, MODEL_UNKNOWN or NO_WORKER before anything is sent; REDIS_UNAVAILABLE; the
   *   signal's reason when it aborts
   */
  async send(input: ControlCommandInput, options: SendOptions = {}): Promise<ControlOutcome[]> {
    const command = parseRequestPart(ControlCommand, input, 'command');
    const { workers: wanted = 'concerned', timeoutMs = 0, signal } = options;
    signal?.throwIfAborted();
    const present = await readPresence(this.#options.connection);
    const asked = targetsOf(command, present, wanted).map(
      (worker): Asked => ({ worker, gone: new AbortController(), line: undefined }),
    );
    const late = lateness(timeoutMs);
    const looking = setInterval(
      () => void this.#look(asked),
      this.#options.lookIntervalMs ?? HEARTBEAT_MS,
    );
    try {
      const giveUp = signal === undefined ? [late.signal] : [late.signal, signal];
      const ends = await Promise.allSettled(asked.map((one) => this.#ask(one, command, giveUp)));
      signal?.throwIfAborted();
      return ends.map((end) => {
        if (end.status === 'fulfilled') return end.value;
        throw toRedisError(end.reason);
      });
    } finally {
      clearInterval(looking);
      late.stop();
    }
  }

  async #ask(
    asked: Asked,
    command: ControlCommand,
    giveUp: readonly AbortSignal[],
  ): Promise<ControlOutcome> {
    const { worker, gone } = asked;
    await using line = await ControlLine.open({ ...this.#options, worker: worker.id });
    asked.line = line;
    const id = randomUUID();
    await line.add(id, { kind: 'command', command });
    const ending = AbortSignal.any([gone.signal, ...giveUp]);
    try {
      return outcomeOf(worker, await line.waitForEnd(id, ending));
    } catch (error) {
      await (gone.signal.aborted ? line.abandon() : line.withdraw(id));
      if (!ending.aborted) throw error;
      const { code, message } = toWavepoolError(error);
      return outcomeOf(worker, { ok: false, code, message });
    } finally {
      asked.line = undefined;
    }
  }

  async #look(asked: readonly Asked[]): Promise<void> {
    const waiting = asked.filter(({ line }) => line !== undefined);
    const alive = await readPresence(this.#options.connection).catch(() => undefined);
    if (alive === undefined) return;
    for (const { worker, gone, line } of waiting) {
      // One that ends tells of its commands before it leaves.
      await line?.lookAgain();
      if (!alive.some(({ id }) => id === worker.id))
        gone.abort(new WavepoolError('WORKER_GONE', nameOf(worker)));
    }
  }
}

/**
 * Removes what was sent to workers that are gone.
 * @param sentBefore milliseconds since 1970; a worker that has just begun may not have told of itself yet
 */
export async function sweepControlQueues(connection: Redis, sentBefore: number): Promise<void> {
  const asked = await connection.zrangebyscore(controlQueuesKey(connection), '-inf', sentBefore);
  if (asked.length === 0) return;
  const alive = new Set((await readPresence(connection)).map(({ id }) => id));
  for (const id of asked) if (!alive.has(id)) await removeControlQueue(connection, id);
}

/** @throws {WavepoolError} NO_WORKER, MODEL_UNKNOWN */
function targetsOf(
  command: ControlCommand,
  present: readonly WorkerPresence[],
  wanted: ControlTargets,
): readonly WorkerPresence[] {
  if (typeof wanted !== 'string') {
    const missing = wanted.filter((id) => !present.some((worker) => worker.id === id));
    if (missing.length > 0) throw new WavepoolError('NO_WORKER', missing.join(', '));
    return present.filter(({ id }) => wanted.includes(id));
  }
  if (present.length === 0) throw new WavepoolError('NO_WORKER', 'none is alive');
  if (wanted === 'all' || command.operation === 'unload-many') return present;
  const concerned = present.filter(({ runtime }) =>
    runtime.models.some(({ id }) => id === command.model),
  );
  if (concerned.length > 0) return concerned;
  if (command.operation === 'load') return present;
  throw new WavepoolError('MODEL_UNKNOWN', `${command.model} is registered with no worker`);
}

function outcomeOf(worker: WorkerPresence, end: ControlEnd): ControlOutcome {
  const answering = { worker: worker.id, host: worker.host, pid: worker.pid };
  if (end.ok) return { ok: true, ...answering, ...end.result };
  return { ok: false, ...answering, error: { code: end.code, message: end.message } };
}

function nameOf({ host, pid }: WorkerPresence): string {
  return `${host}:${pid}`;
}

function lateness(timeoutMs: number): { readonly signal: AbortSignal; stop(): void } {
  const late = new AbortController();
  if (timeoutMs === 0) return { signal: late.signal, stop: () => undefined };
  const error = new WavepoolError('CONTROL_TIMEOUT', `${timeoutMs} ms`);
  const timer = setTimeout(() => late.abort(error), timeoutMs);
  return { signal: late.signal, stop: () => clearTimeout(timer) };
}

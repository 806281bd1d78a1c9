/** Control of models over HTTP: requests and answers. */
import { z } from 'zod';
import { failureToError, isErrorCode, WavepoolError } from '../errors.ts';
import { ModelId } from '../job/job.ts';
import { apiSchemas } from '../openapi.ts';
import { ControlOutcome, ModelSettings, SwapStrategy } from '../worker/control.ts';

const DAY_MS = 86_400_000;

const Addressing = {
  workers: z
    .union([z.enum(['concerned', 'all']), z.array(z.uuid()).min(1).max(256)])
    .default('concerned')
    .meta({
      description:
        'ids of GET /v1/workers; `concerned` are those that have the model, or all when a model is to be loaded that none has',
    }),
  timeoutMs: z.int().min(0).max(DAY_MS).default(600_000).meta({
    description: 'for the answers of the workers; 0 is no limit. What is late is taken back',
  }),
};

export const LoadModelRequest = z
  .strictObject({ settings: ModelSettings.prefault({}), ...Addressing })
  .prefault({})
  .register(apiSchemas, { id: 'LoadModelRequest' });
export const UnloadModelRequest = z
  .strictObject(Addressing)
  .prefault({})
  .register(apiSchemas, { id: 'UnloadModelRequest' });
export const ReconfigureModelRequest = z
  .strictObject({
    settings: ModelSettings,
    replace: z
      .boolean()
      .default(false)
      .meta({ description: 'settings that are left out fall back to their defaults' }),
    strategy: SwapStrategy.default('retire-first'),
    ...Addressing,
  })
  .register(apiSchemas, { id: 'ReconfigureModelRequest' });
export const UnloadModelsRequest = z
  .strictObject({
    models: z.union([z.literal('all'), z.array(ModelId).min(1).max(256)]),
    ...Addressing,
  })
  .register(apiSchemas, { id: 'UnloadModelsRequest' });

export type LoadModelBody = z.input<typeof LoadModelRequest>;
export type UnloadModelBody = z.input<typeof UnloadModelRequest>;
export type ReconfigureModelBody = z.input<typeof ReconfigureModelRequest>;
export type UnloadModelsBody = z.input<typeof UnloadModelsRequest>;

export const ControlAnswer = z
  .strictObject({
    outcomes: z.array(ControlOutcome).meta({ description: 'of each worker, by its start' }),
  })
  .register(apiSchemas, { id: 'ControlAnswer' });
export type ControlAnswer = z.infer<typeof ControlAnswer>;

/** No worker did what it was told; the code is that of the first one's reason. */
export class ControlFailedError extends WavepoolError {
  readonly outcomes: readonly ControlOutcome[];

  constructor(
    { code, message }: { code: string; message: string },
    outcomes: readonly ControlOutcome[],
  ) {
    const known = isErrorCode(code) ? code : 'INTERNAL';
    super(known, failureToError(`${known}: ${message}`).detail);
    this.outcomes = outcomes;
  }
}

/**
 * One worker that did it is enough for an answer; what the others say is in it.
 * @throws {ControlFailedError} when none did
 */
export function answerOf(outcomes: readonly ControlOutcome[]): ControlAnswer {
  const failures = outcomes.flatMap((outcome) => (outcome.ok ? [] : [outcome.error]));
  const [first] = failures;
  if (first !== undefined && failures.length === outcomes.length) {
    throw new ControlFailedError(first, outcomes);
  }
  return { outcomes: [...outcomes] };
}

/** The workers of `worker` and of `serve --with-worker`: their models, pulled where they are missing, and their capacity. */
import type { Config } from '../../core/config.ts';
import { openModels, pullModel, pullModels } from '../access/model-access.ts';
import { chooseCapacities } from '../capacity/auto-capacity.ts';
import type { CapacityOptions } from '../capacity/capacity-options.ts';
import { DETECTOR_MODEL, modelsOf } from '../options/options.ts';
import type { CliContext } from '../terminal/context.ts';
import { Fleet, quietLogLevel } from './fleet.ts';
import { type ResidencyOptions, residencyOf } from './residency-options.ts';

export interface ServingOptions extends CapacityOptions, ResidencyOptions {
  readonly model: readonly string[];
  readonly quiet?: true;
}

export interface ServingPlace {
  readonly config: Config;
  readonly context: CliContext;
  readonly signal: AbortSignal;
  /** See `FleetOptions`. */
  readonly maxUrlBytes?: number;
}

/** @throws {WavepoolError} as `pullModel`, `chooseCapacity` and `Fleet.start` */
export async function startFleet(
  options: ServingOptions,
  { config, context, signal, maxUrlBytes }: ServingPlace,
): Promise<Fleet> {
  const quiet = options.quiet === true;
  const store = openModels(config, context);
  const models = await pullModels(store, modelsOf(options.model), context, { quiet, signal });
  const detector = await pullModel(store, DETECTOR_MODEL, context, { quiet, signal });
  return Fleet.start({
    config,
    capacities: await chooseCapacities(options, models, { config, context, signal }),
    residency: residencyOf(options),
    models,
    detector,
    signal,
    ...(maxUrlBytes === undefined ? {} : { maxUrlBytes }),
    logLevel: logLevelOf(config, options),
  });
}

export function logLevelOf(
  { logLevel }: Pick<Config, 'logLevel'>,
  { quiet }: Pick<ServingOptions, 'quiet'>,
): Config['logLevel'] {
  return quiet === true ? quietLogLevel(logLevel) : logLevel;
}

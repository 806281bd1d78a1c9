/** Whether a model can have the slots that a new configuration asks for; decided before anything working is retired. */

import type { Engine } from '../engine.ts';
import { admittedSlots } from '../slots/capacity.ts';
import { MAX_SLOTS } from '../slots/model-slots.ts';
import { type ModelConfiguration, poolOptions, sameSessions } from './model-configuration.ts';
import type { ModelPlanner } from './model-plan.ts';
import type { ModelResidency } from './model-residency.ts';
import { probeCapacity } from './publication.ts';

/** What admits more than one slot, besides the family. */
export interface SlotPolicy {
  /** The operator takes counts without evidence (`--unvalidated-slots`). */
  readonly unvalidated: boolean;
  /** Highest validated count; 1 when none is. */
  readonly evidence: (id: string, configuration: ModelConfiguration) => number;
}

export interface SlotCheck {
  readonly id: string;
  readonly engine: Engine;
  readonly planner: ModelPlanner | undefined;
  readonly policy: SlotPolicy;
}

/**
 * What can be said without the family's word.
 * @throws {WavepoolError} SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED
 */
export function assertSlotsAdmitted(
  id: string,
  next: ModelConfiguration,
  policy: SlotPolicy,
  advertised = MAX_SLOTS,
): void {
  admittedSlots({
    model: id,
    requested: next.slots,
    evidence: policy.evidence(id, next),
    unvalidated: policy.unvalidated,
    advertised,
  });
}

/**
 * Under the exclusive lease. One slot is always supported, so nothing is asked for it.
 * @throws {WavepoolError} SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED, INSUFFICIENT_MEMORY, or why the new weights are unusable
 */
export async function assertSlotsSupported(
  next: ModelConfiguration,
  residency: ModelResidency,
  check: SlotCheck,
): Promise<void> {
  if (next.slots === 1) return;
  assertSlotsAdmitted(check.id, next, check.policy);
  const capacity = await advertisedCapacity(next, residency, check);
  assertSlotsAdmitted(check.id, next, check.policy, capacity);
}

/** From the live pool, from metadata, or from a private primary session that dies before its weights. */
async function advertisedCapacity(
  next: ModelConfiguration,
  residency: ModelResidency,
  { engine, planner }: SlotCheck,
): Promise<number> {
  const { published, configuration } = residency;
  if (published && sameSessions(configuration, next)) return published.pool.capacity;
  if (planner) {
    const { slots, ...options } = poolOptions(next);
    return (await planner.planModel(next.path, options)).capacity;
  }
  const probed = { ...next, slots: 1 };
  using _reservation = await residency.reserve(probed, true);
  if (published && configuration.path === next.path)
    return await probeCapacity(published.model, probed);
  const model = await engine.loadModel(next.path);
  try {
    return await probeCapacity(model, probed);
  } finally {
    await model.close();
  }
}

/** How many slots a model may have. This is the only check of a slot count: starts, registrations and commands share it. */
import { WavepoolError } from '../../core/errors.ts';
import type { ModelPlan } from '../engine.ts';
import { MAX_SLOTS } from '../slots/model-slots.ts';
import type { ModelConfiguration } from './model-configuration.ts';

/** What a runtime has to know about its models before it gives them slots and memory. It is given once. */
export interface ModelPolicy {
  /** Slot counts up to this one need no evidence (`--unvalidated-slots`); 0 = every count above 1 needs it. */
  readonly unvalidatedSlots: number;
  /**
   * The highest slot count that evidence admits for a model with this configuration; 1 when there is no evidence.
   * Without a configuration: the highest count for any configuration of the model.
   */
  evidence(id: string, configuration?: ModelConfiguration): number;
  /**
   * The capacity of a model and the memory of its weights and sessions, told without loading it. When it is undefined, a
   * session is probed for the capacity, and the memory is estimated from the size of the file.
   * @throws {WavepoolError} INPUT_NOT_FOUND, MODEL_FILE_INVALID, INVALID_REQUEST
   */
  plan(configuration: ModelConfiguration): Promise<ModelPlan | undefined>;
}

/** The policy of a runtime that was given none: every count that the family supports is admitted. */
export const FAMILY_DECIDES: ModelPolicy = {
  unvalidatedSlots: MAX_SLOTS,
  evidence: () => 1,
  plan: () => Promise.resolve(undefined),
};

export interface SlotRequest {
  /** The id, for the command that would admit more. */
  readonly model: string;
  readonly slots: number;
  /** See `ModelPolicy`. */
  readonly evidence: number;
  readonly unvalidatedSlots: number;
  /** Slots that the family supports for the options of the model. @defaultValue not known yet */
  readonly supported?: number | undefined;
  /** Why evidence admits no more, for people. */
  readonly reason?: string | undefined;
  /** Options for the command that would admit more, such as `--batch 8`. @defaultValue none */
  readonly validateOptions?: string | undefined;
}

/**
 * One slot is always admitted. More are admitted within what the family supports, as far as there is evidence or the
 * operator needs none. A count is refused, never quietly lowered.
 * @throws {WavepoolError} SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED
 */
export function assertSlotsAdmitted(request: SlotRequest): void {
  const { model, slots, evidence, unvalidatedSlots, supported = MAX_SLOTS } = request;
  if (!Number.isInteger(slots) || slots < 1 || slots > MAX_SLOTS) {
    throw new WavepoolError('SLOTS_UNSUPPORTED', `${slots} is not within 1…${MAX_SLOTS}`);
  }
  if (slots === 1) return;
  if (slots > supported) {
    throw new WavepoolError(
      'SLOTS_UNSUPPORTED',
      `${model} supports ${Math.max(1, supported)} at most, ${slots} were requested`,
    );
  }
  if (slots > Math.max(evidence, unvalidatedSlots)) {
    const { reason, validateOptions } = request;
    throw new WavepoolError(
      'CAPACITY_UNVALIDATED',
      `${model} is validated for ${evidence}, ${slots} were requested${reason ? ` (${reason})` : ''}; run: ` +
        `wavepool models validate ${model} --slots ${slots}${validateOptions ? ` ${validateOptions}` : ''}`,
    );
  }
}

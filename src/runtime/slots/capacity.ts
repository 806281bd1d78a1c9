import { WavepoolError } from '../../core/errors.ts';
import { MAX_SLOTS } from './model-slots.ts';

export interface SlotAdmission {
  /** Names the model in the command that would admit more. */
  readonly model: string;
  /** `auto` = as many as are admitted. */
  readonly requested: number | 'auto';
  /** Highest count up to which every count is validated for this very build, checkpoint and mode; 1 when none is. */
  readonly evidence: number;
  /** Why evidence admits no more; for people. */
  readonly reason?: string | undefined;
  /** Of the command that would admit more, such as `--batch 8`. @defaultValue none */
  readonly validateOptions?: string | undefined;
  /** The operator takes a count without evidence (`--unvalidated-slots`). */
  readonly unvalidated: boolean;
  /** What the family advertises for these options. */
  readonly advertised: number;
  /** How many slots memory allows; undefined = not known. */
  readonly memory?: number | undefined;
}

/**
 * The slots to configure. One slot always works; more only within what the family supports, evidence admits and memory
 * allows. A count is refused, never quietly lowered.
 * @returns 1…16
 * @throws {WavepoolError} SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED, INSUFFICIENT_MEMORY
 */
export function admittedSlots(admission: SlotAdmission): number {
  const { model, requested, evidence, unvalidated, memory = MAX_SLOTS } = admission;
  const supported = Math.min(admission.advertised, MAX_SLOTS);
  if (requested === 'auto') return Math.max(1, Math.min(supported, evidence, memory));
  if (!Number.isInteger(requested) || requested < 1 || requested > MAX_SLOTS) {
    throw new WavepoolError('SLOTS_UNSUPPORTED', `${requested} is not within 1…${MAX_SLOTS}`);
  }
  if (requested === 1) return 1;
  if (requested > supported) {
    throw new WavepoolError(
      'SLOTS_UNSUPPORTED',
      `${model} supports ${Math.max(1, supported)} at most, ${requested} were requested`,
    );
  }
  if (requested > evidence && !unvalidated) {
    const { reason, validateOptions } = admission;
    throw new WavepoolError(
      'CAPACITY_UNVALIDATED',
      `${model} is validated for ${evidence}, ${requested} were requested${reason ? ` (${reason})` : ''}; run: ` +
        `wavepool models validate ${model} --slots ${requested}${validateOptions ? ` ${validateOptions}` : ''}`,
    );
  }
  if (requested > memory) {
    throw new WavepoolError(
      'INSUFFICIENT_MEMORY',
      `memory allows ${Math.max(1, memory)} slots of ${model}, ${requested} were requested`,
    );
  }
  return requested;
}

/**
 * What a record of evidence says: how many slots it admits and why not more, and what memory each slot took. It is all
 * computed from the records; nothing else decides what counts.
 */
import type {
  CountEvidence,
  EvidenceIdentity,
  FrameworkEvidence,
  ModelEvidence,
  StartPhase,
} from '../../core/evidence/evidence.ts';
import { PROCEDURE_VERSION, verdictOf } from '../../core/evidence/evidence.ts';

/** A count needs this many fresh starts to be validated. */
const LEAST_STARTS = 3;
const MODEL_ENTRIES = ['M1', 'M2', 'M3', 'M4', 'M5', 'M6'];
const FRAMEWORK_ENTRIES = ['F1', 'F2', 'F3', 'F4', 'F5', 'F6'];

export interface AdmissionQuestion {
  /** The weights, the build and the mode that are to run now. */
  readonly identity: EvidenceIdentity;
  /** The number of items in one native batch that are to run now. */
  readonly batch: number;
  readonly model: ModelEvidence | undefined;
  readonly framework: FrameworkEvidence | undefined;
}

export interface Admission {
  /** 1…16. One slot needs no evidence. */
  readonly count: number;
  /** Tells people why it is not more. */
  readonly reason: string;
}

export function admittedCount(question: AdmissionQuestion): Admission {
  const { model } = question;
  const mode = question.identity.mode;
  if (model === undefined) return one(`nothing has been validated in mode ${mode}`);
  const obstacle = modelObstacle(question, model) ?? frameworkObstacle(question);
  if (obstacle !== undefined) return one(obstacle);
  let count = 0;
  for (const evidence of model.counts) {
    const shortcoming = countShortcoming(evidence, count + 1);
    if (shortcoming !== undefined) return { count: Math.max(1, count), reason: shortcoming };
    count = evidence.slots;
  }
  return {
    count: Math.max(1, count),
    reason: `${Math.max(1, count)} is the largest count that was validated`,
  };
}

function one(reason: string): Admission {
  return { count: 1, reason };
}

/** Tells which part of the record's identity is different now. */
function modelObstacle(
  { identity, batch }: AdmissionQuestion,
  model: ModelEvidence,
): string | undefined {
  const then = model.identity;
  if (model.procedure !== PROCEDURE_VERSION) {
    return `it was validated by version ${model.procedure} of the procedure, which is ${PROCEDURE_VERSION} now`;
  }
  if (then.model !== identity.model) return `the record is about ${then.model}`;
  if (then.checkpointSha256 !== identity.checkpointSha256) {
    return 'the weights have changed since they were validated';
  }
  if (then.build !== identity.build) {
    return `the native code has changed since: validated was build ${then.build}, this is ${identity.build}`;
  }
  for (const key of ['backend', 'family', 'task', 'mode'] as const) {
    if (then[key] !== identity[key])
      return `validated was ${key} ${then[key]}, not ${identity[key]}`;
  }
  if (batch > model.manifest.batch) {
    return `validated were batches of up to ${model.manifest.batch}, not ${batch}`;
  }
  return undefined;
}

function frameworkObstacle({ framework, identity }: AdmissionQuestion): string | undefined {
  if (framework === undefined || framework.build !== identity.build) {
    return 'the framework has not been validated for this build; run: wavepool framework validate';
  }
  if (framework.procedure !== PROCEDURE_VERSION) {
    return 'the framework was validated by another version of the procedure; run: wavepool framework validate';
  }
  const missing = FRAMEWORK_ENTRIES.find(
    (id) => !framework.entries.some((entry) => entry.id === id),
  );
  if (missing !== undefined) return `the framework's ${missing} is missing`;
  const bad = framework.entries.find((entry) => verdictOf([entry]) !== 'PASS');
  return bad && `the framework's ${bad.id} is ${bad.status}`;
}

function countShortcoming(evidence: CountEvidence, expected: number): string | undefined {
  const { slots, entries, starts } = evidence;
  if (slots !== expected) return `${expected} slots were not validated`;
  const missing = MODEL_ENTRIES.find((id) => !entries.some((entry) => entry.id === id));
  if (missing !== undefined) return `${missing} is missing for ${slots} slots`;
  const bad = entries.find((entry) => verdictOf([entry]) !== 'PASS');
  if (bad)
    return `with ${slots} slots ${bad.id} is ${bad.status}${bad.reason ? ` (${bad.reason})` : ''}`;
  const whole = starts.filter(
    ({ failure, mismatches }) => failure === undefined && mismatches === 0,
  );
  if (whole.length < LEAST_STARTS) return `${slots} slots had ${whole.length} whole starts`;
  return undefined;
}

/** The phases in which one pool was in memory and nothing else. The recovery of a start loads two models for a while. */
const ONE_POOL: ReadonlySet<StartPhase> = new Set(['cold', 'warm', 'serial', 'invalid']);

/** The highest resident size of a worker with so many slots; undefined where none was measured. */
export function peakBytes(record: ModelEvidence, slots: number): number | undefined {
  const count = record.counts.find((evidence) => evidence.slots === slots);
  const samples = count?.starts
    .flatMap(({ memory }) => memory)
    .filter(({ phase }) => ONE_POOL.has(phase));
  if (samples === undefined || samples.length === 0) return undefined;
  return samples.reduce((peak, { residentBytes }) => Math.max(peak, residentBytes), 0);
}

/** The memory that each further slot added, from the largest count that was measured; undefined where only one slot was. */
export function measuredSessionBytes(record: ModelEvidence): number | undefined {
  const one = peakBytes(record, 1);
  const largest = record.counts.findLast(({ slots }) => peakBytes(record, slots) !== undefined);
  if (one === undefined || largest === undefined || largest.slots === 1) return undefined;
  const most = peakBytes(record, largest.slots) ?? one;
  return Math.max(0, Math.ceil((most - one) / (largest.slots - 1)));
}

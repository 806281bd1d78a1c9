/** How many slots evidence admits, and why not more. Pure: what counts is compared here and nowhere else. */
import type {
  CountEvidence,
  EvidenceIdentity,
  FrameworkEvidence,
  ModelEvidence,
} from '../../core/evidence/evidence.ts';
import { PROCEDURE_VERSION, verdictOf } from '../../core/evidence/evidence.ts';

/** Fresh starts without which no count is validated. */
const LEAST_STARTS = 3;
const MODEL_ENTRIES = ['M1', 'M2', 'M3', 'M4', 'M5', 'M6'];
const FRAMEWORK_ENTRIES = ['F1', 'F2', 'F3', 'F4', 'F5', 'F6'];

export interface AdmissionQuestion {
  /** Of the weights, the build and the mode that are to run now. */
  readonly identity: EvidenceIdentity;
  /** Items of one native batch that are to run now. */
  readonly batch: number;
  readonly model: ModelEvidence | undefined;
  readonly framework: FrameworkEvidence | undefined;
}

export interface Admission {
  /** 1…16. One slot needs no evidence. */
  readonly count: number;
  /** Why not more; for people. */
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

/** What of the record's identity is no longer so. */
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

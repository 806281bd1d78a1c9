/** The verdict over the starts of one count: entries M1…M6, from nothing but what the starts reported. */
import type {
  CountEvidence,
  EvidenceEntry,
  EvidenceMode,
  EvidenceStart,
  EvidenceStatus,
  Throughput,
} from '../../core/evidence/evidence.ts';
import { verdictOf } from '../../core/evidence/evidence.ts';
import type { StartEnd, StartReport } from '../../core/evidence/validation-ipc.ts';
import { describeTrend, grows, memoryTrend } from './memory-rule.ts';
import { describeMismatch, type Mismatch, type References } from './references.ts';
import { STARTS } from './workload.ts';

const ENTRIES = ['M1', 'M2', 'M3', 'M4', 'M5', 'M6'] as const;
type EntryId = (typeof ENTRIES)[number];

const LEAST_WARM_WAVES = 10;
const MISMATCHES_SHOWN = 3;

export interface CountFacts {
  readonly slots: number;
  readonly mode: EvidenceMode;
  /** In the order of the starts; fewer than three are an unfinished count. */
  readonly ends: readonly StartEnd[];
  /** Undefined until one slot has had all its starts. */
  readonly references: References | undefined;
  /** The reason why this count was never started. */
  readonly notRun?: { readonly status: EvidenceStatus; readonly reason: string } | undefined;
}

interface JudgedStart {
  readonly end: StartEnd;
  readonly mismatches: readonly Mismatch[];
}

/** The grounds of an entry. Any problem fails it; without one it passes once all starts are there. */
interface Finding {
  readonly problems: readonly string[];
  readonly observed: readonly string[];
}

export function judgeCount(facts: CountFacts): CountEvidence {
  const starts = facts.ends.map((end): JudgedStart => {
    const known = end.kind === 'finished' ? facts.references?.mismatches(end.report) : undefined;
    return { end, mismatches: known ?? [] };
  });
  const entries = judgeEntries(facts, starts);
  return {
    slots: facts.slots,
    verdict: verdictOf(entries),
    starts: starts.map(startOf),
    entries,
    throughput: throughputOf(reportsOf(starts)),
  };
}

function reportsOf(starts: readonly JudgedStart[]): StartReport[] {
  return starts.flatMap(({ end }) => (end.kind === 'finished' ? [end.report] : []));
}

function startOf({ end, mismatches }: JudgedStart): EvidenceStart {
  if (end.kind === 'finished') {
    const { startedAt, waves, outcomes, activeLeases, memory } = end.report;
    const requests = outcomes.length;
    return { startedAt, waves, requests, mismatches: mismatches.length, activeLeases, memory };
  }
  const { startedAt } = end;
  const nothing = { waves: 0, requests: 0, mismatches: 0, activeLeases: 0, memory: [] };
  return { startedAt, ...nothing, failure: brokenOff(end) };
}

function brokenOff({ phase, wave, reason }: Extract<StartEnd, { kind: 'broken' }>): string {
  return `${phase === 'warm' ? `warm wave ${wave}` : phase}: ${reason}`;
}

function judgeEntries(facts: CountFacts, starts: readonly JudgedStart[]): EvidenceEntry[] {
  const { notRun } = facts;
  if (notRun) return ENTRIES.map((id) => ({ id, ...notRun, observed: [] }));
  const broken = starts.flatMap(({ end }) => (end.kind === 'broken' ? [end] : []));
  const [first] = broken;
  const missing = `${starts.length - broken.length} of ${STARTS} starts`;
  return ENTRIES.map((id) => {
    const { problems, observed } = FINDERS[id](facts, starts);
    const rest = { id, observed: [...observed] };
    if (problems.length > 0) return { ...rest, status: 'FAIL', reason: summary(problems) };
    if (first && (id === 'M2' || first.status !== 'FAIL')) {
      return { ...rest, status: first.status, reason: brokenOff(first) };
    }
    if (first || starts.length < STARTS || facts.references === undefined) {
      return { ...rest, status: 'PENDING', reason: missing };
    }
    return { ...rest, status: 'PASS' };
  });
}

function summary(problems: readonly string[]): string {
  const shown = problems.slice(0, MISMATCHES_SHOWN).join('; ');
  const more = problems.length - MISMATCHES_SHOWN;
  return more > 0 ? `${shown}; and ${more} more` : shown;
}

const FINDERS: Record<EntryId, (facts: CountFacts, starts: readonly JudgedStart[]) => Finding> = {
  M1: serialQuality,
  M2: everyStart,
  M3: mixedWaves,
  M4: recoveries,
  M5: memory,
  M6: modes,
};

/** One slot agrees with itself, in three processes and in two orders. */
function serialQuality({ references }: CountFacts): Finding {
  if (references === undefined) return { problems: [], observed: [] };
  return {
    problems: [
      ...references.variations.map((one) => `one slot varies: ${describeMismatch(one)}`),
      ...references.failures.map(({ item, text }) => `one slot cannot run item ${item}: ${text}`),
    ],
    observed: [`one slot: ${references.compared} repeated results equal their first ones`],
  };
}

function everyStart({ slots }: CountFacts, starts: readonly JudgedStart[]): Finding {
  const reports = reportsOf(starts);
  const requests = reports.reduce((sum, { outcomes }) => sum + outcomes.length, 0);
  const mismatches = starts.flatMap((start) => start.mismatches);
  return {
    problems: [...mismatches.map(describeMismatch), ...failedChecks(reports, 'M2')],
    observed: [
      `${reports.length} fresh starts with ${slots} slots: ${requests} results, ${mismatches.length} unlike one slot's`,
      ...checksOf(reports, 'M2'),
    ],
  };
}

function mixedWaves(_facts: CountFacts, starts: readonly JudgedStart[]): Finding {
  const waves = reportsOf(starts).map(
    ({ outcomes }) => new Set(outcomes.filter(isWarm).map(({ wave }) => wave)).size,
  );
  const mismatches = starts
    .flatMap((start) => start.mismatches)
    .filter(({ outcome }) => isWarm(outcome));
  const few = waves.filter((count) => count < LEAST_WARM_WAVES);
  return {
    problems: [
      ...mismatches.map(describeMismatch),
      ...few.map((count) => `only ${count} warm waves in a start`),
    ],
    observed: [`warm waves by start: ${waves.join(', ')}; every second one in reversed order`],
  };
}

function isWarm({ phase }: { readonly phase: string }): boolean {
  return phase === 'warm';
}

function recoveries(_facts: CountFacts, starts: readonly JudgedStart[]): Finding {
  const reports = reportsOf(starts);
  const mismatches = starts
    .flatMap((start) => start.mismatches)
    .filter(({ outcome }) => ['invalid', 'reload', 'recovery'].includes(outcome.phase));
  return {
    problems: [...mismatches.map(describeMismatch), ...failedChecks(reports, 'M4')],
    observed: checksOf(reports, 'M4'),
  };
}

function memory(_facts: CountFacts, starts: readonly JudgedStart[]): Finding {
  const trends = reportsOf(starts).flatMap((report) => memoryTrend(report.memory) ?? []);
  const observed = trends.map((trend, at) => `start ${at + 1}: ${describeTrend(trend)}`);
  const growing = trends.filter(grows);
  // Systematic growth only: see memory-rule.ts.
  const fails = trends.length >= STARTS && growing.length === trends.length;
  return { problems: fails ? [`memory grows in every start: ${observed[0]}`] : [], observed };
}

const OTHER_MODES: Record<EvidenceMode, string> = {
  offline: 'native batches and streams are validated as modes of their own',
  batch:
    'native batches ran beside each other, each member compared by itself; streams are a mode of their own',
  streaming:
    'streams ran beside each other, fed in pieces; results are promises of each call, so there are no callbacks to own',
};

function modes({ mode }: CountFacts, starts: readonly JudgedStart[]): Finding {
  const reports = reportsOf(starts);
  return {
    problems: failedChecks(reports, 'M6'),
    observed: [`mode ${mode}: ${OTHER_MODES[mode]}`, ...checksOf(reports, 'M6')],
  };
}

function failedChecks(reports: readonly StartReport[], entry: EntryId): string[] {
  return reports.flatMap(({ checks }) =>
    checks
      .filter((check) => check.entry === entry && !check.ok)
      .map(({ name, observed }) => `${name}: ${observed}`),
  );
}

/** Each different observation once. */
function checksOf(reports: readonly StartReport[], entry: EntryId): string[] {
  const all = reports.flatMap(({ checks }) => checks.filter((check) => check.entry === entry));
  return [...new Set(all.map(({ name, observed }) => `${name}: ${observed}`))];
}

function throughputOf(reports: readonly StartReport[]): Throughput | null {
  if (reports.length === 0) return null;
  return reports.reduce(
    (sum, { throughput }) => ({
      audioSeconds: sum.audioSeconds + throughput.audioSeconds,
      wallSeconds: sum.wallSeconds + throughput.wallSeconds,
      samples: sum.samples + throughput.samples,
    }),
    { audioSeconds: 0, wallSeconds: 0, samples: 0 },
  );
}

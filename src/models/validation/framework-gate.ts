/**
 * The framework gate: what all models of a build share, shown by the project's own tests. Each entry names them; all of an
 * entry's tests must exist, run and pass. Recorded once for a build.
 */
import type {
  EvidenceEntry,
  EvidenceMachine,
  EvidenceStatus,
  FrameworkEvidence,
} from '../../core/evidence/evidence.ts';
import { PROCEDURE_VERSION } from '../../core/evidence/evidence.ts';

export interface FrameworkEntry {
  readonly id: string;
  readonly title: string;
  /** Suites of native/tests; `*` stands for all of them. */
  readonly suites: readonly string[];
  /** The suites run under these sanitizers, too. */
  readonly sanitized?: readonly Sanitizer[];
  /** Test files of Vitest. */
  readonly files: readonly string[];
}

export type Sanitizer = 'address,undefined' | 'thread';

export const FRAMEWORK_ENTRIES: readonly FrameworkEntry[] = [
  {
    id: 'F1',
    title: 'scheduling and compatibility',
    suites: ['SlotExecutor', 'SessionPool'],
    files: [
      'test/runtime/slots/model-slots.test.ts',
      'test/runtime/slots/overdue.test.ts',
      'test/runtime/waiting.test.ts',
      'test/runtime/models/slot-policy.test.ts',
      'test/runtime/slots/admission.test.ts',
      'test/runtime/batches/batcher.test.ts',
      'test/runtime/batches/batch-planner.test.ts',
      'test/engine/pools.test.ts',
    ],
  },
  {
    id: 'F2',
    title: 'loads and changes of configuration',
    suites: ['LoadModel', 'ModelPlan', 'AdapterContract'],
    files: [
      'test/runtime/models/model-entry.test.ts',
      'test/runtime/models/lazy-load.test.ts',
      'test/runtime/models/reconfigure.test.ts',
      'test/runtime/lifecycle.test.ts',
      'test/worker/models/control.redis.test.ts',
    ],
  },
  {
    id: 'F3',
    title: 'failures and lifetimes',
    suites: [
      'SessionPool',
      'BatchRun',
      'BatchRunMode',
      'NativeBatchRun',
      'SampleStore',
      'WorkerThreads',
      'StreamRun',
      'WeightCache',
      'TensorSource',
      'TensorViews',
      'Bundle',
    ],
    files: [
      'test/engine/lifetime.test.ts',
      'test/engine/pools.test.ts',
      'test/engine/streams.test.ts',
      'test/runtime/lifecycle-faults.test.ts',
    ],
  },
  {
    id: 'F4',
    title: 'disconnects and shutdown',
    suites: ['SlotExecutor'],
    files: [
      'test/runtime/batches/batcher-end.test.ts',
      'test/runtime/models/shutdown.test.ts',
      'test/worker/job/held-jobs.test.ts',
      'test/worker/supervisor/supervisor.test.ts',
      'test/queue/jobs/cancellation.redis.test.ts',
      'test/queue/jobs/handback.redis.test.ts',
      'test/http/drain.redis.test.ts',
      'test/http/shutdown.redis.test.ts',
    ],
  },
  {
    id: 'F5',
    title: 'several models and eviction',
    suites: ['CpuBackend'],
    files: [
      'test/runtime/models/residency.test.ts',
      'test/runtime/models/bulk-unload.test.ts',
      'test/runtime/stress.test.ts',
    ],
  },
  {
    id: 'F6',
    title: 'regressions and sanitizers',
    suites: ['*'],
    sanitized: ['address,undefined', 'thread'],
    files: ['test/runtime/stress.test.ts', 'test/runtime/lifecycle-stress.test.ts'],
  },
];

/** How the tests of one suite or file ended. */
export interface TestCount {
  readonly name: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** Runs the project's tests. */
export interface TestRunner {
  /** The reason why the tests cannot be run here at all; undefined where they can. */
  readonly obstacle: string | undefined;
  /** Builds the native code with its tests. @returns the identity of the build */
  build(): Promise<string>;
  native(suites: readonly string[], sanitizer?: Sanitizer): Promise<readonly TestCount[]>;
  vitest(files: readonly string[]): Promise<readonly TestCount[]>;
}

export interface FrameworkGateOptions {
  /** The identity of the build that the record is about. */
  readonly build: string;
  readonly machine: EvidenceMachine;
  readonly reproduce: string;
  readonly onEntry?: ((entry: FrameworkEntry) => void) | undefined;
  /** @defaultValue `FRAMEWORK_ENTRIES` */
  readonly entries?: readonly FrameworkEntry[] | undefined;
}

/** @throws {WavepoolError} CANCELLED */
export async function validateFramework(
  runner: TestRunner,
  options: FrameworkGateOptions,
): Promise<FrameworkEvidence> {
  const { build, machine, reproduce, entries: demands = FRAMEWORK_ENTRIES } = options;
  const startedAt = new Date().toISOString();
  const entries: EvidenceEntry[] = [];
  const obstacle = runner.obstacle ?? (await otherBuild(runner, build));
  for (const demand of demands) {
    options.onEntry?.(demand);
    entries.push(
      obstacle === undefined
        ? await judge(demand, runner)
        : { id: demand.id, status: 'BLOCKED', reason: obstacle, observed: [] },
    );
  }
  const endedAt = new Date().toISOString();
  const procedure = PROCEDURE_VERSION;
  return { schemaVersion: 1, procedure, build, machine, reproduce, startedAt, endedAt, entries };
}

async function otherBuild(runner: TestRunner, build: string): Promise<string | undefined> {
  const sources = await runner.build();
  if (sources === build) return undefined;
  return `the sources here are of build ${sources}, the addon in use is ${build}`;
}

async function judge(demand: FrameworkEntry, runner: TestRunner): Promise<EvidenceEntry> {
  const counts: TestCount[] = [];
  if (demand.suites.length > 0) counts.push(...(await runner.native(demand.suites)));
  for (const sanitizer of demand.sanitized ?? []) {
    const run = await runner.native(demand.suites, sanitizer);
    counts.push(
      ...run.map((count) => ({ ...count, name: `${count.name} (-fsanitize=${sanitizer})` })),
    );
  }
  if (demand.files.length > 0) counts.push(...(await runner.vitest(demand.files)));
  return { id: demand.id, ...verdictOn(counts), observed: counts.map(describe) };
}

function verdictOn(counts: readonly TestCount[]): { status: EvidenceStatus; reason?: string } {
  const failed = counts.filter((count) => count.failed > 0);
  if (failed.length > 0) {
    return {
      status: 'FAIL',
      reason: `failed tests in ${failed.map(({ name }) => name).join(', ')}`,
    };
  }
  const silent = counts.filter((count) => count.passed === 0);
  if (counts.length === 0) return { status: 'PENDING', reason: 'no test shows it yet' };
  if (silent.length === 0) return { status: 'PASS' };
  return {
    status: 'BLOCKED',
    reason: `nothing ran of ${silent.map(({ name }) => name).join(', ')}`,
  };
}

function describe({ name, passed, failed, skipped }: TestCount): string {
  const rest = [failed > 0 ? `${failed} failed` : '', skipped > 0 ? `${skipped} skipped` : ''];
  return [`${name}: ${passed} passed`, ...rest.filter(Boolean)].join(', ');
}

/** Records as the procedure would have written them. */
import type {
  CountEvidence,
  EvidenceIdentity,
  EvidenceStart,
  EvidenceStatus,
  FrameworkEvidence,
  ModelEvidence,
} from '../../../src/core/evidence/evidence.ts';
import { PROCEDURE_VERSION } from '../../../src/core/evidence/evidence.ts';

export const identity: EvidenceIdentity = {
  model: 'moonshine-tiny',
  checkpointSha256: 'a'.repeat(64),
  build: 'build-1',
  backend: 'cpu',
  family: 'moonshine',
  task: 'asr',
  mode: 'offline',
};

const startedAt = new Date(0).toISOString();
export const start: EvidenceStart = {
  startedAt,
  waves: 15,
  requests: 60,
  mismatches: 0,
  activeLeases: 2,
  memory: [],
};

export function count(slots: number, change: Partial<CountEvidence> = {}): CountEvidence {
  const entries = ['M1', 'M2', 'M3', 'M4', 'M5', 'M6'].map((id) => {
    return { id, status: 'PASS' as EvidenceStatus, observed: [] };
  });
  return {
    slots,
    verdict: 'PASS',
    starts: [start, start, start],
    entries,
    throughput: null,
    ...change,
  };
}

export function withEntry(slots: number, status: EvidenceStatus, reason?: string): CountEvidence {
  const { entries } = count(slots);
  return count(slots, {
    entries: entries.map((entry) => {
      return entry.id === 'M5' ? { ...entry, status, ...(reason ? { reason } : {}) } : entry;
    }),
  });
}

export function record(
  counts: readonly CountEvidence[],
  change: Partial<ModelEvidence> = {},
): ModelEvidence {
  return {
    schemaVersion: 1,
    procedure: PROCEDURE_VERSION,
    identity,
    machine: { cpu: 'test', cores: 2, memoryBytes: 1, os: 'test' },
    manifest: { threads: 1, batch: 1, seed: 1, ggml: '', compiler: '', flags: '', items: [] },
    reproduce: 'test',
    startedAt,
    endedAt: startedAt,
    counts: [...counts],
    verdicts: { model: 'PASS', framework: 'PASS', performance: 'completed' },
    ...change,
  };
}

/** A framework record in which everything passed but what is named. */
export function frameworkOf(
  build: string,
  statuses: Readonly<Record<string, EvidenceStatus>> = {},
): FrameworkEvidence {
  const at = new Date(0).toISOString();
  return {
    schemaVersion: 1,
    procedure: PROCEDURE_VERSION,
    build,
    machine: { cpu: 'test', cores: 2, memoryBytes: 2 ** 30, os: 'test' },
    reproduce: 'test',
    startedAt: at,
    endedAt: at,
    entries: ['F1', 'F2', 'F3', 'F4', 'F5', 'F6'].map((id) => {
      return { id, status: statuses[id] ?? 'PASS', observed: ['test'] };
    }),
  };
}

import { randomUUID } from 'node:crypto';
import type { ModelStatus, WorkerPresence } from '../../src/core/worker/status.ts';

/** A loaded model of two slots, one of them at work. */
export function modelStatusOf(id: string, changes: Partial<ModelStatus> = {}): ModelStatus {
  return {
    id,
    path: `/models/${id}.gguf`,
    state: 'ready',
    generation: 1,
    failure: null,
    family: 'moonshine',
    task: 'transcribe',
    languages: ['en'],
    optionNames: ['suppressBlank'],
    mode: 'offline',
    loaded: true,
    leaving: 0,
    idleMs: 0,
    slots: 2,
    activeSlots: 1,
    exclusive: false,
    queuedRequests: 3,
    waitingManagers: 0,
    maxParallelSlots: 16,
    weightBytes: 1_048_576,
    sessionBytes: [1_024, 1_024],
    batches: {
      queuedItems: 3,
      queuedSeconds: 24,
      runningBatches: 1,
      runningItems: 8,
      batchSizes: [2, 0, 0, 1],
      completedItems: 6,
      failedItems: 0,
      cancelledItems: 0,
      audioSeconds: 40,
      busyMs: 2_000,
    },
    ...changes,
  };
}

/** A worker that serves one model. */
export function presenceOf(changes: Partial<WorkerPresence> = {}): WorkerPresence {
  return {
    id: randomUUID(),
    pid: 4_711,
    host: 'test-host',
    startedAt: 1_000,
    version: '0.1.0',
    models: [{ id: 'moonshine-tiny', slots: 2, batch: 8 }],
    runtime: { build: 'test-build', models: [modelStatusOf('moonshine-tiny')] },
    heldJobs: 4,
    unvalidatedSlots: 0,
    residentBytes: 104_857_600,
    updatedAt: 2_000,
    ...changes,
  };
}

/** Answers of the interface, as a server would give them. */
import type { JobResource, UploadResource } from '../../src/core/http/api.ts';

export const UPLOAD_ID = 'a'.repeat(64);

export function jobResource(id: string, more: Partial<JobResource> = {}): JobResource {
  const self = `/v1/jobs/${id}`;
  return {
    id,
    model: 'test-model',
    task: 'transcribe',
    state: 'waiting',
    tenant: 'default',
    priority: 1_000,
    input: { kind: 'upload', name: 'a.wav', uploadId: UPLOAD_ID },
    progress: null,
    outcome: null,
    failure: null,
    attempts: 0,
    createdAt: '2026-01-01T00:00:00.000Z',
    startedAt: null,
    finishedAt: null,
    deadlineAt: null,
    links: { self, result: `${self}/result`, events: `${self}/events` },
    ...more,
  };
}

export function uploadResource(name: string): UploadResource {
  const createdAt = '2026-01-01T00:00:00.000Z';
  return { id: UPLOAD_ID, name, bytes: 3, createdAt, expiresAt: createdAt };
}

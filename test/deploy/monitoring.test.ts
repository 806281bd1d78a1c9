import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { createMetrics } from '../../src/http/metrics/metrics.ts';

function deployed(name: string): string {
  return readFileSync(new URL(`../../deploy/${name}`, import.meta.url), 'utf8');
}

/** The samples that the server tells, with the three of each histogram. */
async function toldNames(): Promise<string[]> {
  const metrics = createMetrics({ overview: () => Promise.resolve({ queues: [], workers: [] }) });
  const types = [...(await metrics.render()).matchAll(/^# TYPE (\w+) (\w+)$/gm)];
  return types.flatMap(([, name = '', type]) =>
    type === 'histogram' ? ['_bucket', '_sum', '_count'].map((end) => name + end) : [name],
  );
}

function namesIn(text: string): string[] {
  return [...new Set(text.match(/\bwavepool_\w+/g))];
}

describe('the dashboard', () => {
  const text = deployed('grafana/wavepool.json');
  const { panels, templating } = JSON.parse(text);

  test('names only metrics that the server tells, and every one of ours', async () => {
    const told = await toldNames();
    const named = namesIn(text);
    expect(told).toEqual(expect.arrayContaining(named));
    const ours = told.filter((name) => /^wavepool_/.test(name));
    const without = ours.filter((name) => !named.some((each) => baseOf(each) === baseOf(name)));
    expect(without).toEqual([]);
  });

  test('has panels with ids of their own that do not lie over each other', () => {
    const ids = panels.map(({ id }: { id: number }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }: { gridPos: Place }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    const variables = templating.list.map(({ name }: { name: string }) => name);
    expect(variables).toEqual(['datasource', 'server', 'model']);
  });
});

interface Place {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

function baseOf(name: string): string {
  return name.replace(/_(bucket|sum|count)$/, '');
}

test('the scaled object asks for a metric that the server tells, with its labels', async () => {
  const { kind, spec } = parse(deployed('keda/scaled-object.yaml'));
  expect(kind).toBe('ScaledObject');
  const [trigger, ...more] = spec.triggers;
  expect(more).toEqual([]);
  expect(trigger.type).toBe('prometheus');
  const { query, threshold } = trigger.metadata;
  expect(await toldNames()).toEqual(expect.arrayContaining(namesIn(query)));
  const counts = { waiting: 1, delayed: 0, running: 0, completed: 0, failed: 0 };
  const queues = [{ model: 'moonshine-tiny', workers: 0, counts }];
  const metrics = createMetrics({ overview: () => Promise.resolve({ queues, workers: [] }) });
  expect(await metrics.render()).toContain(
    'wavepool_queue_jobs{model="moonshine-tiny",state="waiting"} 1',
  );
  for (const state of ['waiting', 'running']) expect(query).toContain(state);
  // KEDA takes numbers as text only.
  for (const value of Object.values(trigger.metadata)) expect(value).toBeTypeOf('string');
  expect(Number(threshold)).toBeGreaterThan(0);
  expect(spec.minReplicaCount).toBeLessThan(spec.maxReplicaCount);
});

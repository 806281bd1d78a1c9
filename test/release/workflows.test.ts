/** The workflow files name scripts, files and actions that exist, and give no more rights than they need. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

const ROOT = path.resolve(import.meta.dirname, '../..');
const FOLDER = path.join(ROOT, '.github/workflows');
const { scripts } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));

interface Step {
  readonly uses?: string;
  readonly run?: string;
}
interface Workflow {
  readonly on: object;
  readonly permissions: object;
  readonly jobs: Readonly<
    Record<string, { 'runs-on': string; 'timeout-minutes': number; steps: readonly Step[] }>
  >;
}

test.each(readdirSync(FOLDER))('%s', (name) => {
  const workflow: Workflow = parse(readFileSync(path.join(FOLDER, name), 'utf8'));
  expect(Object.keys(workflow.on)).not.toHaveLength(0);
  expect(workflow.permissions).toEqual({ contents: 'read' });
  for (const job of Object.values(workflow.jobs)) {
    expect(job['runs-on']).toMatch(/^(ubuntu|macos)-\d/);
    expect(job['timeout-minutes']).toBeGreaterThan(0);
    for (const { uses, run } of job.steps) {
      // One of both, and an action of a version.
      expect([uses, run].filter((member) => member !== undefined)).toHaveLength(1);
      if (uses !== undefined) expect(uses).toMatch(/^[\w-]+\/[\w-]+@v\d+$/);
      const script = /^npm (?:run )?(\S+)/.exec(run ?? '')?.[1];
      if (script !== undefined) expect(Object.keys(scripts)).toContain(script);
      if (run?.startsWith('.')) expect(existsSync(path.join(ROOT, run))).toBe(true);
    }
  }
});

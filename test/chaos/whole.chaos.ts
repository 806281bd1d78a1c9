/** Every scenario in its whole size, one after the other; `scripts/chaos.mjs` runs this and prints what it reports. */
import { appendFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ALL_SCENARIOS, wholeSize } from './all-scenarios.ts';
import { buildPrograms, type ChaosPrograms } from './support/programs.ts';

const { WAVEPOOL_CHAOS_REPORT, WAVEPOOL_CHAOS_ONLY, WAVEPOOL_CHAOS_SEED } = process.env;
const only = new Set(WAVEPOOL_CHAOS_ONLY?.split(','));
const seed = Number(WAVEPOOL_CHAOS_SEED ?? 1);

let programs: ChaosPrograms & AsyncDisposable;
beforeAll(async () => {
  programs = await buildPrograms();
});
afterAll(() => programs[Symbol.asyncDispose]());

function report(line: unknown): void {
  if (WAVEPOOL_CHAOS_REPORT !== undefined)
    appendFileSync(WAVEPOOL_CHAOS_REPORT, `${JSON.stringify(line)}\n`);
}

describe('faults', () => {
  const chosen = ALL_SCENARIOS.filter(({ name }) => only.size === 0 || only.has(name));
  test.for(chosen)('$name', async (scenario) => {
    const { name, fault } = scenario;
    const outcome = await scenario
      .run({ ...wholeSize(scenario), seed, programs })
      .catch((error: unknown) => {
        report({ name, fault, error: error instanceof Error ? error.message : String(error) });
        throw error;
      });
    report({ name, fault, ...outcome });
    expect(outcome).toMatchObject({ lost: 0, doubled: 0 });
  });
});

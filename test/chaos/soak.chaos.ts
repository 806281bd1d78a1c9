/** The soak at the length that scripts/soak.mjs asks for. */
import { afterAll, beforeAll, test } from 'vitest';
import { assertSteady, soak } from './soak.ts';
import { buildPrograms, type ChaosPrograms } from './support/programs.ts';

const { WAVEPOOL_SOAK_MINUTES, WAVEPOOL_SOAK_SEED } = process.env;

let programs: ChaosPrograms & AsyncDisposable;
beforeAll(async () => {
  programs = await buildPrograms();
});
afterAll(() => programs[Symbol.asyncDispose]());

test('soak', async () => {
  const context = { jobs: 0, times: 0, seed: Number(WAVEPOOL_SOAK_SEED ?? 1), programs };
  const result = await soak(context, Number(WAVEPOOL_SOAK_MINUTES ?? 30));
  assertSteady(result);
});

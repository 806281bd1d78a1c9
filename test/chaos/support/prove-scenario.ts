/** A scenario as a test: nothing lost, nothing doubled. */
import { expect } from 'vitest';
import type { Scenario, ScenarioOutcome } from '../scenario.ts';
import { buildPrograms, type ChaosPrograms } from './programs.ts';

let programs: Promise<ChaosPrograms & AsyncDisposable> | undefined;
let users = 0;

/** Compiled once for the scenarios that run side by side in this file. */
async function withPrograms<Result>(use: (programs: ChaosPrograms) => Promise<Result>) {
  programs ??= buildPrograms();
  users += 1;
  try {
    return await use(await programs);
  } finally {
    users -= 1;
    if (users === 0) {
      const done = programs;
      programs = undefined;
      await (await done)[Symbol.asyncDispose]();
    }
  }
}

export async function proveScenario(
  scenario: Scenario,
  size: { readonly jobs: number; readonly times: number },
): Promise<ScenarioOutcome> {
  const outcome = await withPrograms((compiled) =>
    scenario.run({ ...size, seed: 8, programs: compiled }),
  );
  expect(outcome, scenario.name).toMatchObject({ lost: 0, doubled: 0 });
  expect(outcome.completed + outcome.failed).toBe(outcome.jobs);
  process.stdout.write(`${scenario.name}: ${JSON.stringify(outcome)}\n`);
  return outcome;
}

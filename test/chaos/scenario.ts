/**
 * Faults that are caused for real, and what became of the jobs. A scenario is one function: the tests run it short, the
 * chaos script whole. Scenarios know nothing of the test runner.
 */
import type { ChaosPrograms } from './support/programs.ts';

export interface ScenarioContext {
  /** Jobs in each round. */
  readonly jobs: number;
  /** How often the fault is caused. */
  readonly times: number;
  /** What is random follows from it. */
  readonly seed: number;
  /** Programs that processes of their own run; compiled once for all scenarios. */
  readonly programs: ChaosPrograms;
}

export interface ScenarioOutcome {
  /** How often the fault was caused. */
  readonly times: number;
  readonly jobs: number;
  readonly completed: number;
  /** Ended with the typed code that was to be expected, cancelled ones included. */
  readonly failed: number;
  /** Jobs without an end, with a wrong end, or completed without their right result. */
  readonly lost: number;
  /** Ends and results beyond one for each job. */
  readonly doubled: number;
  /**
   * The longest time from the end of a fault (the blow itself, where it has no length) to the next job that ended. Null
   * where nothing was to recover.
   */
  readonly recoveryMs: number | null;
}

export interface Scenario {
  /** kebab-case; unique. */
  readonly name: string;
  /** What happens, in a few words for people. */
  readonly fault: string;
  run(context: ScenarioContext): Promise<ScenarioOutcome>;
}

/** What a scenario was meant to show did not happen. */
export class ScenarioError extends Error {
  override readonly name = 'ScenarioError';
}

/** @throws {ScenarioError} with this message unless the condition holds. */
export function ensure(condition: boolean, message: string): asserts condition {
  if (!condition) throw new ScenarioError(message);
}

/** Rounds of one scenario as one outcome. */
export function sumOf(rounds: readonly ScenarioOutcome[]): ScenarioOutcome {
  const total = (count: (round: ScenarioOutcome) => number) =>
    rounds.reduce((sum, round) => sum + count(round), 0);
  const recoveries = rounds.flatMap(({ recoveryMs }) => recoveryMs ?? []);
  return {
    times: total(({ times }) => times),
    jobs: total(({ jobs }) => jobs),
    completed: total(({ completed }) => completed),
    failed: total(({ failed }) => failed),
    lost: total(({ lost }) => lost),
    doubled: total(({ doubled }) => doubled),
    recoveryMs: recoveries.length === 0 ? null : Math.max(...recoveries),
  };
}

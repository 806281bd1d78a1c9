/** The procedure over sessions that do something wrong: each ends in the right failure, and none in admission. */
import { expect, test } from 'vitest';
import type { EvidenceEntry, ModelEvidence } from '../../../src/core/evidence/evidence.ts';
import { TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { admitted, installFake, validate } from './validation-fixture.ts';

const built = test.skipIf(!TEST_ADDON_BUILT);

function entryOf(evidence: ModelEvidence, slots: number, id: string): EvidenceEntry | undefined {
  return evidence.counts[slots - 1]?.entries.find((entry) => entry.id === id);
}

built(
  'sound sessions pass every entry and are admitted',
  async () => {
    await installFake();
    const evidence = await validate([]);
    const problems = evidence.counts.flatMap(({ entries }) =>
      entries.filter(({ status }) => status !== 'PASS'),
    );
    expect(problems).toEqual([]);
    expect(evidence.verdicts).toMatchObject({ model: 'PASS', performance: 'completed' });
    expect(evidence.counts[1]?.starts.map(({ activeLeases }) => activeLeases)).toEqual([2, 2, 2]);
    expect(await admitted(evidence)).toMatchObject({ count: 2 });
  },
  60_000,
);

built(
  'a session whose first result differs on one slot, too, is compared cold with cold',
  async () => {
    await installFake();
    const evidence = await validate(['first-run']);
    expect(evidence.verdicts.model).toBe('PASS');
  },
  60_000,
);

/** Name, the starts that have it, the count and the entry that must fail, what the reason says. */
const DEFECTS: readonly [string, string[], number, string, RegExp][] = [
  ['results that depend on what ran before', ['leak'], 1, 'M1', /one slot varies/],
  ['a session that shows its neighbor’s result', ['neighbor'], 2, 'M2', /instead of/],
  ['a clone that differs only cold', ['cold-clone'], 2, 'M2', /cold wave 0/],
  ['one mismatch in all warm waves of three starts', ['once', '2-3'], 2, 'M3', /^warm wave/],
  ['memory that grows', ['growth'], 1, 'M5', /memory grows in every start/],
  ['a wrong result after the reload', ['reload-clone'], 2, 'M4', /reload wave/],
  ['a crash in the middle', ['crash'], 2, 'M2', /^warm wave 1[01]: .*SIGABRT/],
];

for (const [title, defect, slots, id, reason] of DEFECTS) {
  built(
    `${title} fails ${id} and admits nothing`,
    async () => {
      await installFake();
      const evidence = await validate(defect);
      const entry = entryOf(evidence, slots, id);
      expect(entry).toMatchObject({ status: 'FAIL', reason: expect.stringMatching(reason) });
      expect(evidence.verdicts.model).toBe('FAIL');
      expect(await admitted(evidence)).toMatchObject({ count: 1 });
    },
    60_000,
  );
}

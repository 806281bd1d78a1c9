/** Random choices that repeat for a seed (mulberry32). */
export function randomness(seed: number) {
  let state = seed;
  const random = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  /** A whole number below `count`. */
  const pick = (count: number): number => Math.floor(random() * count);
  /** One of several; undefined only when there is none. */
  const one = <T>(of: readonly T[]): T | undefined => of[pick(of.length)];
  return { pick, one };
}

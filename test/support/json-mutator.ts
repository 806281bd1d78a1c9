/** Damaged copies of JSON values, the same for the same seed: what clients send that are broken, old or hostile. */

/** Numbers in [0, 1), by the linear congruence that the other tests use. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const DEEP = '['.repeat(200) + ']'.repeat(200);

const ODD_VALUES: readonly unknown[] = [
  ...[null, true, false, 0, -0, -1, 1.5, 1e308, -1e308, 2 ** 53, 2 ** 31, 5e-324],
  ...['', ' ', '0', 'null', '__proto__', 'constructor', 'a'.repeat(10_000), '\0', '\ud800', '𝔘'],
  ...['../../etc/passwd', '/etc/passwd', 'file:///etc/passwd', 'http://127.0.0.1:1/x', '%2e%2e/'],
  ...['a:b', '{a}', '1'.repeat(400), 'run-1\r\nSET x y', '$(id)', "'; --", '-rf'],
  ...[[], {}, [[]], [null], { length: 1e9 }, { toString: null }],
];

type Container = Record<string, unknown> | unknown[];

function containersIn(value: unknown, found: Container[] = []): Container[] {
  if (typeof value !== 'object' || value === null) return found;
  found.push(value as Container);
  for (const member of Object.values(value)) containersIn(member, found);
  return found;
}

/** A copy with one to three members replaced, removed, added, renamed or moved. */
export function mutate(value: unknown, random: () => number): unknown {
  const copy: unknown = structuredClone(value);
  const pick = <T>(items: readonly T[]): T | undefined =>
    items[Math.floor(random() * items.length)];
  const odd = (): unknown =>
    random() < 0.02 ? JSON.parse(DEEP) : structuredClone(pick(ODD_VALUES));
  const changes = 1 + Math.floor(random() * 3);
  for (let change = 0; change < changes; change += 1) {
    const container = pick(containersIn(copy));
    if (container === undefined) return odd();
    const keys = Object.keys(container);
    const key = pick(keys) ?? 'added';
    const members = container as Record<string, unknown>;
    switch (Math.floor(random() * 5)) {
      case 0:
        delete members[key];
        break;
      case 1:
        members[`${key}x`] = members[key];
        break;
      case 2:
        members[key] = structuredClone(members[pick(keys) ?? key]);
        break;
      default:
        members[key] = odd();
    }
  }
  return copy;
}

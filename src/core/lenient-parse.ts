/** For readers of what a newer program may have written: members that this version does not know are left out. */
import { z } from 'zod';
import { WavepoolError } from './errors.ts';

/**
 * Like the schema, but unknown members of objects are dropped and not refused.
 * @param what names the value, for the message
 * @throws {WavepoolError} INTERNAL
 */
export function parseLeniently<Schema extends z.ZodType>(
  schema: Schema,
  raw: unknown,
  what: string,
): z.output<Schema> {
  const first = schema.safeParse(raw);
  if (first.success) return first.data;
  const known = structuredClone(raw);
  // Each round removes at least one member; deeper ones may come to light only then.
  for (let parsed: z.ZodSafeParseResult<z.output<Schema>> = first; ; ) {
    if (parsed.success) return parsed.data;
    const unknown = unknownMembers(parsed.error.issues, []);
    if (unknown === undefined) {
      throw new WavepoolError('INTERNAL', `${what}: ${z.prettifyError(parsed.error)}`, {
        cause: parsed.error,
      });
    }
    for (const members of unknown) removeMembers(known, members);
    parsed = schema.safeParse(known);
  }
}

interface UnknownMembers {
  readonly path: readonly PropertyKey[];
  readonly keys: readonly string[];
}

/** Undefined when something else is wrong, too. */
function unknownMembers(
  issues: readonly z.core.$ZodIssue[],
  path: readonly PropertyKey[],
): UnknownMembers[] | undefined {
  const found = issues.map((issue) => {
    const place = [...path, ...issue.path];
    if (issue.code === 'unrecognized_keys') return [{ path: place, keys: issue.keys }];
    if (issue.code !== 'invalid_union') return undefined;
    const options = issue.errors.map((option) => unknownMembers(option, place));
    return options.find((option) => option !== undefined && option.length > 0);
  });
  return found.includes(undefined) ? undefined : found.flatMap((members) => members ?? []);
}

function removeMembers(value: unknown, { path, keys }: UnknownMembers): void {
  let place = value;
  for (const step of path) {
    place = typeof place === 'object' && place !== null ? Reflect.get(place, step) : undefined;
  }
  if (typeof place !== 'object' || place === null) return;
  for (const key of keys) Reflect.deleteProperty(place, key);
}

/** The value that the text stands for; undefined when the text is not JSON. */
export function parseJson(text: unknown): unknown {
  try {
    return typeof text === 'string' ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

/** A member of an object of unknown shape; undefined where there is none. */
export function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined;
}

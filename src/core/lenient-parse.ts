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
    const unknown = parsed.error.issues.filter((issue) => issue.code === 'unrecognized_keys');
    if (unknown.length < parsed.error.issues.length) {
      throw new WavepoolError('INTERNAL', `${what}: ${z.prettifyError(parsed.error)}`, {
        cause: parsed.error,
      });
    }
    for (const { path, keys } of unknown) removeMembers(known, path, keys);
    parsed = schema.safeParse(known);
  }
}

function removeMembers(value: unknown, path: readonly PropertyKey[], keys: readonly string[]) {
  let place = value;
  for (const step of path) {
    place = typeof place === 'object' && place !== null ? Reflect.get(place, step) : undefined;
  }
  if (typeof place !== 'object' || place === null) return;
  for (const key of keys) Reflect.deleteProperty(place, key);
}

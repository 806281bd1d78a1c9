import { WavepoolError } from '../../core/errors.ts';
import type { Reservation } from '../slots/reservation.ts';
import type { BulkUnload, ManagementOptions } from './management.ts';
import type { ModelEntry } from './model-entry.ts';

/**
 * Unloads several models. All places are taken in this turn, before anything is waited for, so that two calls that name
 * the same models in different orders meet in one order on all of them.
 */
export async function unloadMany(
  entries: ReadonlyMap<string, ModelEntry>,
  ids: readonly string[] | 'all',
  options: ManagementOptions,
): Promise<BulkUnload> {
  const named = ids === 'all' ? [...entries.keys()] : [...new Set(ids)];
  const invalid = named.find((id) => typeof id !== 'string');
  if (invalid !== undefined) throw new WavepoolError('INVALID_REQUEST', `not an id: ${invalid}`);
  const targets = named.flatMap((id) => entries.get(id) ?? []);
  const places: Reservation[] = [];
  const unloaded: string[] = [];
  try {
    for (const entry of targets) places.push(entry.reserve('unload', options));
    const ends = await Promise.allSettled(
      targets.map((entry, index) => unload(entry, places[index], unloaded)),
    );
    const failed = ends.find((end) => end.status === 'rejected');
    if (failed) throw failed.reason;
  } finally {
    // Where placing them failed half-way, none of them stays behind.
    for (const place of places) place.cancel();
  }
  return { unloaded, notFound: named.filter((id) => !entries.has(id)) };
}

async function unload(entry: ModelEntry, place: Reservation | undefined, unloaded: string[]) {
  using lease = place?.tryAcquire() ?? (await place?.acquire());
  if (!lease) return;
  // Where it is in the answer says when it ceased to be loaded: idle ones first.
  unloaded.push(entry.id);
  await entry.retire();
}

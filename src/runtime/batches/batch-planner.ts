/**
 * Chooses which waiting segments form the next native batch, and when. These are pure functions over plain data: they know
 * no clock and no queue.
 *
 * **What may be reordered.** The first segment of a batch, its *anchor*, is never chosen for its length: it is the
 * first segment of the highest priority, from the oldest job and from the job with the least audio left in turn from
 * batch to batch. The anchor fixes the key. Its companions are the next segments in that same fair order, and only
 * among a window of `WINDOW` batches of them may length decide: segments within `SIMILAR_RATIO` of the anchor come
 * before clearly shorter or longer ones, because a batch decodes for as many steps as its longest member needs and
 * the others idle. A small batch costs more than a mixed one, so a batch is filled whatever the lengths.
 *
 * **Why nothing starves.** The oldest job's first waiting segment anchors at least every second batch of its priority,
 * so a segment passed over for its length is reached after at most twice the segments before it in its job; then the
 * next job is the oldest. Across priorities the order is strict, on purpose: a lower priority only fills room that is
 * left, and never with a segment that would lengthen the batch.
 */

export interface Candidate {
  readonly jobId: string;
  /** Order in which the jobs were accepted. */
  readonly jobSequence: number;
  /** Lower runs first, as in BullMQ. */
  readonly priority: number;
  readonly seconds: number;
  /** Audio of the job that is not transcribed yet, this segment included. */
  readonly jobRemainingSeconds: number;
  /** Only candidates with equal keys share a batch. */
  readonly key: string;
  readonly arrivedAtMs: number;
  /** Whether it runs in a batch of its own. */
  readonly alone: boolean;
}

export interface BatchLimits {
  readonly maxItems: number;
  readonly maxAudioSeconds: number;
}

/** The job whose segment comes next within a priority: the oldest one, or the one with the least audio left. */
export type Turn = 'oldest' | 'least-left';

export interface BatchPlan<C extends Candidate> {
  /** The anchor comes first. Empty only when there is no candidate. */
  readonly batch: readonly C[];
  /** The turn to start the following batch with. */
  readonly nextTurn: Turn;
}

const WINDOW = 2;
const SIMILAR_RATIO = 1.25;
const SHORTEST_SECONDS = 0.01;

/** Plans one batch of `candidates`: one key, within the limits, and at least one item however long it is. */
export function planBatch<C extends Candidate>(
  candidates: readonly C[],
  limits: BatchLimits,
  firstTurn: Turn = 'oldest',
): BatchPlan<C> {
  const nextTurn = other(firstTurn);
  const order = fairOrder(candidates, firstTurn);
  const anchor = order[0];
  if (anchor === undefined) return { batch: [], nextTurn: firstTurn };
  if (anchor.alone) return { batch: [anchor], nextTurn };

  const batch = [anchor];
  let seconds = anchor.seconds;
  let longest = anchor.seconds;
  for (const companion of companions(order, anchor, limits.maxItems * WINDOW)) {
    if (batch.length >= limits.maxItems) break;
    if (seconds + companion.seconds > limits.maxAudioSeconds) continue;
    if (companion.priority > anchor.priority && companion.seconds > longest) continue;
    batch.push(companion);
    seconds += companion.seconds;
    longest = Math.max(longest, companion.seconds);
  }
  return { batch, nextTurn };
}

function companions<C extends Candidate>(order: readonly C[], anchor: C, window: number): C[] {
  return order
    .filter((item) => item !== anchor && item.key === anchor.key && !item.alone)
    .slice(0, window)
    .toSorted((a, b) => a.priority - b.priority || lengthStep(a, anchor) - lengthStep(b, anchor));
}

/** How far the item's length is from the anchor's: 0 = about equal; each step is another factor of `SIMILAR_RATIO`. */
function lengthStep(item: Candidate, anchor: Candidate): number {
  const ratio =
    Math.max(item.seconds, SHORTEST_SECONDS) / Math.max(anchor.seconds, SHORTEST_SECONDS);
  return Math.floor(Math.abs(Math.log(ratio)) / Math.log(SIMILAR_RATIO));
}

function other(turn: Turn): Turn {
  return turn === 'oldest' ? 'least-left' : 'oldest';
}

/** Sorts by priority. Within one, segments come in turn from the oldest job and from the one with the least audio left. */
function fairOrder<C extends Candidate>(candidates: readonly C[], firstTurn: Turn): C[] {
  const byPriority = groupBy(candidates, (item) => item.priority);
  return [...byPriority.keys()]
    .toSorted((a, b) => a - b)
    .flatMap((priority) => takeTurns(byPriority.get(priority) ?? [], firstTurn));
}

interface JobLine<C extends Candidate> {
  readonly sequence: number;
  readonly remainingSeconds: number;
  /** The segment that runs first is the last element, so that `pop` takes it. */
  readonly waiting: C[];
}

function takeTurns<C extends Candidate>(items: readonly C[], firstTurn: Turn): C[] {
  const jobs = jobLines(items);
  const byAge = jobs.toSorted((a, b) => a.sequence - b.sequence);
  const lines: Record<Turn, JobLine<C>[]> = {
    oldest: byAge,
    'least-left': byAge.toSorted((a, b) => a.remainingSeconds - b.remainingSeconds),
  };
  const order: C[] = [];
  for (let turn = firstTurn; order.length < items.length; turn = other(turn)) {
    while (lines[turn][0]?.waiting.length === 0) lines[turn].shift();
    const next = lines[turn][0]?.waiting.pop();
    if (next !== undefined) order.push(next);
  }
  return order;
}

function jobLines<C extends Candidate>(items: readonly C[]): JobLine<C>[] {
  return [...groupBy(items, (item) => item.jobId).values()].map((ofJob) => ({
    sequence: least(ofJob, (item) => item.jobSequence),
    // Each segment carries the figure of its own submission; the smallest is the newest.
    remainingSeconds: least(ofJob, (item) => item.jobRemainingSeconds),
    waiting: ofJob.toSorted((a, b) => a.arrivedAtMs - b.arrivedAtMs).reverse(),
  }));
}

function groupBy<K, C>(items: readonly C[], keyOf: (item: C) => K): Map<K, C[]> {
  const groups = new Map<K, C[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

function least<C>(items: readonly C[], figure: (item: C) => number): number {
  return items.reduce((smallest, item) => Math.min(smallest, figure(item)), Infinity);
}

export interface DueBatches<C extends Candidate> {
  /** How many batches should start as soon as slots are free. */
  readonly count: number;
  /** The candidates that those batches are planned from. */
  readonly candidates: readonly C[];
  /** When the next wait ends, if nothing arrives before; undefined when nothing waits for company. */
  readonly nextAtMs: number | undefined;
}

/**
 * The wait rule. Segments of one key wait for company until they fill a batch, until the oldest of them has waited
 * `maxWaitMs`, or until nothing else is coming. A segment that runs alone waits for nobody.
 */
export function dueBatches<C extends Candidate>(
  waiting: readonly C[],
  limits: BatchLimits & { readonly maxWaitMs: number },
  nowMs: number,
  expectMore: boolean,
): DueBatches<C> {
  const candidates = waiting.filter((item) => item.alone);
  let count = candidates.length;
  let nextAtMs: number | undefined;
  const sharing = waiting.filter((item) => !item.alone);
  for (const group of groupBy(sharing, (item) => item.key).values()) {
    const seconds = group.reduce((sum, item) => sum + item.seconds, 0);
    const fill = Math.max(group.length / limits.maxItems, seconds / limits.maxAudioSeconds);
    const dueAtMs = least(group, (item) => item.arrivedAtMs) + limits.maxWaitMs;
    const waitIsOver = !expectMore || nowMs >= dueAtMs;
    const batches = waitIsOver ? Math.ceil(fill) : Math.floor(fill);
    count += Math.min(batches, group.length);
    if (batches > 0) candidates.push(...group);
    if (!waitIsOver) nextAtMs = Math.min(nextAtMs ?? dueAtMs, dueAtMs);
  }
  return { count, candidates, nextAtMs };
}

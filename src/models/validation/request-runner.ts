/** Runs the groups of a wave together and turns what comes back into outcomes that can be compared. */
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import type { ItemOutcome, StartGroup, StartPlan } from '../../core/evidence/validation-ipc.ts';
import { sha256Of } from '../../core/files/file-hash.ts';
import type { Audio, TaskResult, TaskStream } from '../../runtime/engine.ts';
import { SAMPLE_RATE } from '../../runtime/engine.ts';
import type { StreamLease } from '../../runtime/models/stream-lease.ts';
import type { StartRecorder } from './start-recorder.ts';
import type { Subject } from './subject.ts';

/** An index that stands for a request that must be refused: samples that the input does not have. */
export const INVALID_ITEM = -1;

export interface GroupRequest {
  /** Indexes of items; `INVALID_ITEM` may be among them. */
  readonly group: StartGroup;
  /** Given when this is the first execution of its session after a load. */
  readonly coldGroup?: number | undefined;
  /** Ends the stream of this request half-way. Its outcome counts for nothing. */
  readonly abandon?: boolean | undefined;
}

export interface WaveEnd {
  readonly outcomes: readonly ItemOutcome[];
  /** The outcomes of the requests that were to be refused. */
  readonly refusals: readonly ItemOutcome[];
  /** The number of different slots that worked. */
  readonly slots: number;
}

const JOB_SEQUENCE = 0;
/** Lengths of the pieces in samples, in turn; each stream begins at another one. None is a multiple of a window. */
const PIECES: readonly number[] = [1_600, 333, 4_000, 800, 2_457];

export class RequestRunner {
  readonly #plan: StartPlan;
  readonly #audios: readonly Audio[];
  readonly #recorder: StartRecorder;
  readonly #stateful: boolean;
  #requests = 0;

  /** @param audios by item, decoded */
  constructor(
    plan: StartPlan,
    audios: readonly Audio[],
    recorder: StartRecorder,
    stateful: boolean,
  ) {
    this.#plan = plan;
    this.#audios = audios;
    this.#recorder = recorder;
    this.#stateful = stateful;
  }

  /**
   * Releases all groups in this turn, one for each slot; resolves when all have ended and the slots are
   * free again. Never rejects for a request.
   */
  async wave(subject: Subject, requests: readonly GroupRequest[], wave = 0): Promise<WaveEnd> {
    const slots = new Set<number>();
    const ended = await Promise.all(
      requests.map((request) => this.#group(subject, request, wave, slots)),
    );
    await subject.idle();
    const kept = ended.filter((_outcomes, at) => requests[at]?.abandon !== true);
    const all = kept.flat();
    return {
      outcomes: all.filter(({ item }) => item !== INVALID_ITEM),
      refusals: all.filter(({ item }) => item === INVALID_ITEM),
      slots: slots.size,
    };
  }

  audioSeconds(requests: readonly GroupRequest[]): number {
    const samples = requests
      .flatMap(({ group }) => group)
      .reduce((sum, index) => sum + this.#samples(index), 0);
    return samples / SAMPLE_RATE;
  }

  #samples(index: number): number {
    const item = this.#plan.items[index];
    return item === undefined ? 0 : item.endSample - item.startSample;
  }

  /** The items of a group share a key that no other request has, so they are one native batch. */
  #group(
    subject: Subject,
    { group, coldGroup, abandon = false }: GroupRequest,
    wave: number,
    slots: Set<number>,
  ): Promise<ItemOutcome[]> {
    this.#requests += 1;
    const key = `group ${this.#requests}`;
    return Promise.all(
      group.map(async (index) => {
        let slot: number | undefined;
        const end = await this.#submit(subject, { index, key, abandon }, (leased) => {
          slot = leased;
          slots.add(leased);
          const { loaded, activeSlots } = subject.status();
          if (loaded) this.#recorder.leases(activeSlots);
        });
        return {
          phase: this.#recorder.phase,
          wave,
          item: index,
          ...(coldGroup === undefined ? {} : { coldGroup }),
          ...(slot === undefined ? {} : { slot }),
          ...end,
        };
      }),
    );
  }

  async #submit(
    subject: Subject,
    request: ItemRequest,
    onStart: (slot: number) => void,
  ): Promise<Pick<ItemOutcome, 'result' | 'text'>> {
    try {
      const results = await (this.#plan.mode === 'streaming'
        ? this.#stream(subject, request, onStart)
        : this.#segment(subject, request, onStart));
      return { result: digest(results), text: results.map(({ text }) => text).join(' ') };
    } catch (thrown) {
      const { code, detail } = toWavepoolError(thrown);
      return { result: code, text: detail };
    }
  }

  async #segment(
    subject: Subject,
    { index, key }: ItemRequest,
    onStart: (slot: number) => void,
  ): Promise<TaskResult[]> {
    const result = await subject.submit({
      jobId: key,
      jobSequence: JOB_SEQUENCE,
      priority: 0,
      key,
      jobRemainingSeconds: 0,
      task: {
        ...this.#stretch(index),
        ...(this.#stateful ? { state: subject.createState() } : {}),
        options: {},
      },
      onStart,
    });
    return [result];
  }

  async #stream(
    subject: Subject,
    { index, abandon }: ItemRequest,
    onStart: (slot: number) => void,
  ): Promise<TaskResult[]> {
    using lease = await subject.acquireStream();
    onStart(lease.slot);
    return await runStream(lease, { ...this.#stretch(index), turn: Math.max(index, 0), abandon });
  }

  /** The invalid item lies behind the end of the first one's input. */
  #stretch(index: number) {
    const audio = this.#audios[Math.max(index, 0)];
    const item = this.#plan.items[Math.max(index, 0)];
    if (audio === undefined || item === undefined) throw new RangeError(`no item ${index}`);
    const beyond = index === INVALID_ITEM ? audio.endSample : 0;
    return {
      audio,
      startSample: beyond + item.startSample,
      endSample: beyond + item.endSample,
    };
  }
}

interface ItemRequest {
  readonly index: number;
  /** The key of the group. */
  readonly key: string;
  readonly abandon: boolean;
}

interface StreamInput {
  readonly audio: Audio;
  readonly startSample: number;
  readonly endSample: number;
  /** The index of the length that comes first. */
  readonly turn: number;
  /** Ends the stream in its midst, as a client does that goes away. */
  readonly abandon: boolean;
}

/** Feeds the input piece by piece, as a live input would come. The slot is free when this settles. */
async function runStream(lease: StreamLease, input: StreamInput): Promise<TaskResult[]> {
  const stream = await lease.pool.startStream(lease.slot, {});
  try {
    return input.abandon ? await abandoned(stream, input) : await whole(stream, input);
  } finally {
    // A stream that has ended is reset already; for it this does nothing.
    await stream.reset();
  }
}

async function whole(stream: TaskStream, input: StreamInput): Promise<TaskResult[]> {
  const results = await push(stream, input, input.endSample);
  return [...results, await stream.finish()];
}

async function abandoned(stream: TaskStream, input: StreamInput): Promise<TaskResult[]> {
  const { startSample, endSample } = input;
  await push(stream, input, startSample + Math.floor((endSample - startSample) / 2));
  await stream.reset();
  throw new WavepoolError('CANCELLED', 'the stream was abandoned');
}

async function push(stream: TaskStream, input: StreamInput, endSample: number) {
  const { audio, turn } = input;
  const results: TaskResult[] = [];
  let at = input.startSample;
  for (let piece = turn; at < endSample; piece += 1) {
    const end = Math.min(endSample, at + (PIECES[piece % PIECES.length] ?? 1));
    const result = await stream.push({ audio, startSample: at, endSample: end });
    if (result) results.push(result);
    at = end;
  }
  return results;
}

/** A hash of everything that the results say, so that nothing is left out of the comparison. */
function digest(results: readonly TaskResult[]): string {
  const said = results.map(({ text, pieces, language, tokens, truncated, probabilities }) => {
    const { buffer, byteOffset, byteLength } = probabilities;
    const bytes = Buffer.from(buffer, byteOffset, byteLength).toString('base64');
    return { text, pieces, language, tokens: [...tokens], truncated, probabilities: bytes };
  });
  return sha256Of(JSON.stringify(said));
}

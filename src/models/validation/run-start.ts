/**
 * One start of the procedure (docs/models.md), in a process that has done nothing before: a cold wave submitted with the
 * load, mixed warm waves, serial reuse, an invalid request beside healthy ones, unload and reload, then the recovery of
 * failed and interrupted loads. Everything that is compared leaves as outcomes, everything else that must hold as checks.
 */
import type { StartPhase } from '../../core/evidence/evidence.ts';
import type { StartPlan, StartReport, StartWave } from '../../core/evidence/validation-ipc.ts';
import type { Audio, Engine } from '../../runtime/engine.ts';
import { recover } from './recovery.ts';
import { type GroupRequest, INVALID_ITEM, RequestRunner, type WaveEnd } from './request-runner.ts';
import { type RecorderOptions, StartRecorder } from './start-recorder.ts';
import { type Subject, Subjects } from './subject.ts';

/** @throws what makes a start impossible, such as a model that cannot be loaded */
export async function runStart(
  plan: StartPlan,
  engine: Engine,
  options: RecorderOptions,
): Promise<StartReport> {
  using recorder = new StartRecorder(options);
  const audios = await openAll(engine, plan);
  try {
    await using subjects = new Subjects(engine, plan);
    const start = new ModelStart(plan, subjects, audios, recorder);
    await start.run();
    return recorder.report();
  } finally {
    await Promise.all(audios.map((audio) => audio.close()));
  }
}

/** Decoded once for each file; items of the same file share it. */
async function openAll(engine: Engine, plan: StartPlan): Promise<Audio[]> {
  const byPath = new Map<string, Audio>();
  for (const { path } of plan.items) {
    if (byPath.has(path)) continue;
    const audio = await engine.openAudio({ kind: 'file', path });
    byPath.set(path, audio);
    await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
  }
  return plan.items.flatMap(({ path }) => byPath.get(path) ?? []);
}

class ModelStart {
  readonly #plan: StartPlan;
  readonly #subjects: Subjects;
  readonly #runner: RequestRunner;
  readonly #recorder: StartRecorder;
  readonly #model: Subject;

  constructor(
    plan: StartPlan,
    subjects: Subjects,
    audios: readonly Audio[],
    recorder: StartRecorder,
  ) {
    this.#plan = plan;
    this.#subjects = subjects;
    this.#recorder = recorder;
    this.#runner = new RequestRunner(plan, audios, recorder, plan.stateful);
    this.#model = subjects.add(plan.model.id);
  }

  async run(): Promise<void> {
    const { warm, again } = this.#plan;
    await this.#cold('cold');
    await this.#warm('warm', warm);
    await this.#serial();
    await this.#invalid();
    await this.#abandoned();
    await this.#unload();
    await this.#cold('reload');
    await this.#warm('reload', again);
    this.#checkBatches();
    this.#checkCounters('M2');
    await this.#unload();
    await recover({
      plan: this.#plan,
      subjects: this.#subjects,
      model: this.#model,
      runner: this.#runner,
      recorder: this.#recorder,
      coldWave: this.#coldRequests(),
    });
    this.#checkCounters('M4');
    this.#recorder.enter('end');
  }

  #coldRequests(): GroupRequest[] {
    return this.#plan.cold.flatMap((coldGroup) => {
      const group = this.#plan.coldGroups[coldGroup];
      return group === undefined ? [] : [{ group, coldGroup }];
    });
  }

  /** The load and a request for each slot, in one turn: nothing has touched the model before. */
  async #cold(phase: StartPhase): Promise<void> {
    this.#recorder.enter(phase);
    const loading = this.#model.load();
    if (this.#plan.stateful) await loading;
    const wave = this.#runner.wave(this.#model, this.#coldRequests());
    await loading;
    this.#record(await wave);
    this.#recorder.waveEnded(0);
  }

  async #warm(phase: StartPhase, waves: readonly StartWave[]): Promise<void> {
    let parallel = 0;
    for (const [index, groups] of waves.entries()) {
      this.#recorder.enter(phase, index + 1);
      const requests = groups.map((group): GroupRequest => ({ group }));
      const startedMs = performance.now();
      const end = await this.#runner.wave(this.#model, requests, index + 1);
      const seconds = (performance.now() - startedMs) / 1000;
      if (phase === 'warm') this.#recorder.timed(this.#runner.audioSeconds(requests), seconds);
      if (end.slots === this.#plan.slots) parallel += 1;
      this.#record(end);
      this.#recorder.waveEnded(index + 1);
    }
    const { slots } = this.#plan;
    this.#recorder.check(
      'M2',
      `every wave on ${slots} slots (${phase})`,
      parallel === waves.length && this.#recorder.mostLeases === slots,
      `${parallel} of ${waves.length} waves on ${slots} slots, ${this.#recorder.mostLeases} leases of the loaded model at once`,
    );
  }

  /** Alone again after the waves, as often as there are slots. */
  async #serial(): Promise<void> {
    this.#recorder.enter('serial');
    for (const group of this.#plan.warm[0] ?? []) {
      this.#record(await this.#runner.wave(this.#model, [{ group }]));
    }
  }

  /** A request for samples that do not exist, beside healthy ones; in a native batch as one of its items. */
  async #invalid(): Promise<void> {
    this.#recorder.enter('invalid');
    const [first = [], ...others] = this.#plan.warm[0] ?? [];
    const requests: GroupRequest[] =
      this.#plan.batch === 1
        ? [{ group: first }, { group: [INVALID_ITEM] }]
        : [{ group: [...first.slice(0, -1), INVALID_ITEM] }];
    const healthy = others.map((group): GroupRequest => ({ group }));
    const end = await this.#runner.wave(this.#model, [...requests, ...healthy]);
    this.#record(end);
    const [refusal] = end.refusals;
    const refused = refusal !== undefined && /^[A-Z][A-Z_]+$/.test(refusal.result);
    this.#recorder.check(
      'M4',
      'an invalid request is refused beside healthy ones',
      refused && refusal.result !== 'INTERNAL',
      refusal === undefined ? 'it did not end' : `it ended with ${refusal.result}`,
    );
  }

  /** Every second stream ends in its midst; those beside it and those after it are none the worse. */
  async #abandoned(): Promise<void> {
    const { mode, warm } = this.#plan;
    if (mode !== 'streaming') return;
    const groups = warm[0] ?? [];
    const requests = groups.map((group, at): GroupRequest => ({ group, abandon: at % 2 === 0 }));
    this.#record(await this.#runner.wave(this.#model, requests));
    const { activeSlots } = this.#model.status();
    this.#recorder.check(
      'M6',
      'abandoned streams give their slots back',
      activeSlots === 0,
      `${Math.ceil(groups.length / 2)} of ${groups.length} streams were abandoned, then ${activeSlots} slots were leased`,
    );
    this.#record(
      await this.#runner.wave(
        this.#model,
        groups.map((group) => ({ group })),
      ),
    );
  }

  async #unload(): Promise<void> {
    this.#recorder.enter('unload');
    await this.#model.unload();
    const { loaded, state } = this.#model.status();
    this.#recorder.check(
      'M2',
      'unloaded',
      !loaded && state === 'unloaded',
      `the model is ${state}`,
    );
  }

  /** Checks that groups really ran as native batches. */
  #checkBatches(): void {
    const { batch, mode } = this.#plan;
    if (mode !== 'batch') return;
    const { batchSizes } = this.#model.status().batches;
    const full = batchSizes[batch - 1] ?? 0;
    const total = batchSizes.reduce((sum, count) => sum + count, 0);
    this.#recorder.check(
      'M6',
      `native batches of ${batch}`,
      total > 0 && full === total,
      `${full} of ${total} native batches had ${batch} items`,
    );
  }

  /** Nothing is leased, queued or waited for. */
  #checkCounters(entry: 'M2' | 'M4'): void {
    const left = this.#subjects.status().map((status) => {
      const { activeSlots, exclusive, queuedRequests, waitingManagers, batches } = status;
      return (
        activeSlots +
        Number(exclusive) +
        queuedRequests +
        waitingManagers +
        batches.queuedItems +
        batches.runningBatches +
        batches.runningItems
      );
    });
    const sum = left.reduce((total, count) => total + count, 0);
    this.#recorder.check(
      entry,
      'counters are zero',
      sum === 0,
      `${sum} leases and requests are left`,
    );
  }

  #record({ outcomes }: WaveEnd): void {
    this.#recorder.outcomes(outcomes);
  }
}

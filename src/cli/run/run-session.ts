/** One `wavepool run`: model, workers, inputs, and what the person at the terminal sees of it. */

import { createHash } from 'node:crypto';
import path from 'node:path';
import { runDirectory } from '../../bulk/run-directory.ts';
import type { ScanEntry, ScanRoots } from '../../bulk/scan.ts';
import { type ObjectRoot, scanObjects } from '../../bulk/scan-objects.ts';
import type { RunEvent, RunSummary, RunTally } from '../../bulk/summary.ts';
import { watchInputs } from '../../bulk/watch-inputs.ts';
import type { Config } from '../../core/config.ts';
import type { RawAudioFormat } from '../../core/job/job.ts';
import type { JobResult, Transcript } from '../../core/results/job-result.ts';
import { type ResultFormat, renderResult } from '../../core/results/result-formats.ts';
import { renderTranscript } from '../../core/results/transcript-formats.ts';
import type { ObjectPlace } from '../../core/s3-settings.ts';
import { NO_TRACING, type Tracing } from '../../core/tracing.ts';
import { recognizerOptions } from '../../core/worker/model-abilities.ts';
import { NativeEngine } from '../../engine/native-engine.ts';
import type { InstalledModel } from '../../models/installed/installed-models.ts';

import { openStorage } from '../../storage/open-storage.ts';
import { openBucket } from '../../storage/s3/bucket.ts';
import { openTracing } from '../../tracing/open-tracing.ts';
import type { WorkerCrash } from '../../worker/supervisor/supervisor.ts';
import { openModels, pullModel } from '../access/model-access.ts';
import { chooseCapacity } from '../capacity/auto-capacity.ts';
import type { CapacityOptions } from '../capacity/capacity-options.ts';
import type { Capacity } from '../capacity/standard-capacity.ts';
import { Fleet, quietLogLevel } from '../fleet/fleet.ts';
import { DEFAULT_RESIDENCY } from '../fleet/residency-options.ts';
import { DETECTOR_MODEL, resultsFolder } from '../options/options.ts';
import type { TaskChoice } from '../options/task-options.ts';
import { type CliContext, EXIT, type ExitCode, printLine } from '../terminal/context.ts';
import { type InterruptWatch, isInterruption, watchInterrupts } from '../terminal/interrupts.ts';
import { shownPath } from '../terminal/text.ts';
import { NO_PROGRESS, type ProgressView, showProgress } from './run-progress.ts';
import {
  describeFailures,
  describeSummary,
  describeWatchEvent,
  exitCodeOfRun,
  summaryJson,
} from './run-report.ts';

/** Batches of work that wait in the queue for each slot: none ever starves, and a stop leaves little behind. */
const LOOK_AHEAD_BATCHES = 4;
/** A watched directory is walked at least this often: the system does not tell every change. */
const RESCAN_MS = 30_000;
/** How long running work may take to end after the first Ctrl-C. */
const DRAIN_MS = 600_000;

/** The path is absolute. */
export type RunOutput =
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'bucket'; readonly place: ObjectPlace };

export interface RunRequest extends TaskChoice {
  readonly roots: ScanRoots;
  /** In place of the roots, unless there are none. */
  readonly objects: readonly ObjectRoot[];
  /** Without it results are printed. */
  readonly out: RunOutput | undefined;
  readonly formats: readonly ResultFormat[];
  /** The one input is a file. */
  readonly single: boolean;
  /** See `RunDirectoryOptions`. */
  readonly rawFormat: RawAudioFormat | undefined;
  /** Goes on with what comes into the one directory, until it is stopped. */
  readonly watch: { readonly stableMs: number } | undefined;
  readonly capacity: CapacityOptions;
  readonly config: Config;
  readonly json: boolean;
  readonly quiet: boolean;
}

/** @throws {WavepoolError} when the run as a whole cannot go on */
export async function runSession(request: RunRequest, context: CliContext): Promise<ExitCode> {
  return new RunSession(request, context).run();
}

class RunSession {
  readonly #request: RunRequest;
  readonly #context: CliContext;
  #view: ProgressView = NO_PROGRESS;
  #tracing: Tracing = NO_TRACING;
  #fleet: Promise<Fleet> | undefined;

  constructor(request: RunRequest, context: CliContext) {
    this.#request = request;
    this.#context = context;
  }

  async run(): Promise<ExitCode> {
    using watch = watchInterrupts(this.#context, {
      onFirst: () => {
        this.#say(
          'finishing running work, press again to stop now; run the same command to resume',
        );
      },
      onSecond: async () => {
        this.#view.close();
        await (await this.#fleet)?.kill();
      },
    });
    await using tracing = await openTracing(this.#request.config.tracing, 'run');
    this.#tracing = tracing;
    try {
      const summary = await this.#work(watch);
      this.#report(summary);
      if (this.#request.watch !== undefined) return EXIT.done;
      // Also when everything that was left could be finished: whoever pressed Ctrl-C wants the script to stop.
      return watch.signal.aborted ? EXIT.interrupted : exitCodeOfRun(summary);
    } catch (error) {
      if (!isInterruption(error, watch)) throw error;
      return this.#request.watch === undefined ? EXIT.interrupted : EXIT.done;
    } finally {
      this.#view.close();
      await (await this.#fleet?.catch(() => undefined))?.close();
    }
  }

  async #work({ signal }: InterruptWatch): Promise<RunSummary> {
    const { config, formats, out, quiet } = this.#request;
    const store = openModels(config, this.#context);
    const pull = { quiet, signal };
    const model = await pullModel(store, this.#request.model, this.#context, pull);
    const detector = await pullModel(store, DETECTOR_MODEL, this.#context, pull);
    const services = { config, context: this.#context, signal };
    // Chosen when there is work: evidence is about the addon, and a run with nothing to do needs none.
    let chosen: Promise<Capacity> | undefined;
    const capacity = (): Promise<Capacity> => {
      chosen ??= chooseCapacity(this.#request.capacity, model, services);
      return chosen;
    };
    // Measuring tells what it does, and is no part of the run that its progress and speed are about.
    if (this.#request.capacity.tuning?.wanted) await capacity();
    await assertModelHas(model, { ...this.#request, capacity }, config);
    const { results } = await openStorage({ resultsDir: resultsFolder(config), s3: config.s3 });
    const { roots, rawFormat, watch, objects } = this.#request;
    const outBucket = out?.kind === 'bucket' ? await openBucket(config.s3, out.place) : undefined;
    if (watch !== undefined && !quiet) this.#say(`watching ${roots.directories.join(', ')}`);
    else if (!quiet) this.#view = showProgress(this.#context.stderr);
    return runDirectory({
      roots,
      rawFormat,
      ...(watch === undefined ? {} : { source: (halt) => this.#comingIn(watch.stableMs, halt) }),
      ...(objects.length === 0 ? {} : { scan: (signal) => this.#listed(signal) }),
      out: out?.kind === 'folder' ? out.path : this.#stateFolder(),
      outBucket,
      formats: out === undefined ? [] : formats,
      results,
      openQueue: async () =>
        (await this.#startFleet(model, detector, await capacity(), signal)).queue,
      model: model.entry.id,
      job: this.#request.job,
      checkpoint: `${model.record.weights.sha256} ${detector.record.weights.sha256}`,
      maxInFlight: async () => {
        const { workers, slots, batch } = await capacity();
        return workers * slots * batch * LOOK_AHEAD_BATCHES;
      },
      onEvent: (event, tally) => this.#hear(event, tally),
      ...(out === undefined ? { onResult: this.#print } : {}),
      signal,
      finishRunning: async () => {
        await (await this.#fleet)?.drain(DRAIN_MS);
      },
    });
  }

  #comingIn(stableMs: number, halt: AbortSignal) {
    const { roots, rawFormat } = this.#request;
    const out = this.#outFolder();
    const [directory = ''] = roots.directories;
    const everyFile = rawFormat !== undefined;
    return watchInputs({ directory, out, everyFile, stableMs, rescanMs: RESCAN_MS }, halt);
  }

  #hear(event: RunEvent, tally: RunTally): void {
    this.#view.update(tally.progress());
    if (this.#request.watch === undefined) return;
    const line = describeWatchEvent(event, process.cwd());
    if (line === undefined) return;
    if (this.#request.json) printLine(this.#context.stdout, JSON.stringify(event));
    else if (event.type !== 'done' || !this.#request.quiet) this.#say(line);
  }

  #startFleet(
    model: InstalledModel,
    detector: InstalledModel,
    capacity: Capacity,
    signal: AbortSignal,
  ): Promise<Fleet> {
    const { config, quiet } = this.#request;
    this.#fleet ??= Fleet.start({
      config,
      capacities: [capacity],
      residency: DEFAULT_RESIDENCY,
      models: [model],
      detector,
      startsWith: 'first',
      signal,
      tracing: this.#tracing,
      // Failed inputs are in the summary; what the workers say about them would only get in the way.
      logLevel: quietLogLevel(config.logLevel),
      onCrash: (crash) => {
        if (!quiet) this.#say(describeCrash(crash));
      },
    });
    return this.#fleet;
  }

  #listed(signal: AbortSignal): AsyncIterable<ScanEntry> {
    const { objects, out, rawFormat, config } = this.#request;
    return scanObjects(objects, {
      s3: config.s3,
      out: out?.kind === 'bucket' ? out.place : undefined,
      everyFile: rawFormat !== undefined,
      signal,
    });
  }

  #outFolder(): string | undefined {
    const { out } = this.#request;
    return out?.kind === 'folder' ? out.path : undefined;
  }

  /** Remembers a run that writes no files here, so that it can be resumed, too. */
  #stateFolder(): string {
    const { roots, objects, out, config } = this.#request;
    const [folder, what] =
      out?.kind === 'bucket'
        ? (['object-runs', out.place] as const)
        : (['printed-runs', objects.length === 0 ? roots : objects] as const);
    const identity = createHash('sha256').update(JSON.stringify(what)).digest('hex').slice(0, 16);
    return path.join(config.dataDir, folder, identity);
  }

  readonly #print = (filePath: string, result: JobResult): void => {
    const { formats, single } = this.#request;
    const [format = 'json'] = formats;
    const { stdout } = this.#context;
    this.#view.aside(() => {
      if (!single && format === 'json') printLine(stdout, JSON.stringify(result));
      else if (!single && format === 'txt' && result.task === 'transcribe')
        for (const line of linesOf(result))
          printLine(stdout, `${shownPath(filePath, process.cwd())}: ${line}`);
      else stdout.write(renderResult(result, format));
    });
  };

  #say(line: string): void {
    this.#view.aside(() => printLine(this.#context.stderr, line));
  }

  #report(summary: RunSummary): void {
    this.#view.close();
    const { json, quiet, watch } = this.#request;
    // A watch has told everything when it happened.
    if (watch !== undefined) return;
    const folder = process.cwd();
    if (json) this.#context.stdout.write(summaryJson(summary));
    const text = quiet ? describeFailures(summary, folder) : describeSummary(summary, folder);
    this.#context.stderr.write(text);
  }
}

/**
 * Asks the model itself whether it can do what is asked. Where nothing special is asked for, the addon is not even loaded.
 * @throws {WavepoolError} OPTION_UNSUPPORTED, or why the model cannot be read
 */
async function assertModelHas(
  { path, entry }: InstalledModel,
  { job, capacity }: TaskChoice & { readonly capacity: () => Promise<Capacity> },
  { addonPath }: Pick<Config, 'addonPath'>,
): Promise<void> {
  if (job.task === 'vad') return;
  const { language, translate, prompt, words } = job.options ?? {};
  const wishes = { language, translate, prompt, words };
  if (Object.values(wishes).every((wish) => wish === undefined)) return;
  const { threads, batch: maxBatch } = await capacity();
  const engine = new NativeEngine({ addon: addonPath });
  const { info } = await engine.planModel(path, { mode: 'offline', threads, maxBatch });
  recognizerOptions(wishes, entry.id, info);
}

/** The text is one line; where speakers are told apart each turn is. */
function linesOf(transcript: Transcript): string[] {
  const told = transcript.segments.some(({ speaker }) => speaker !== undefined);
  if (!told) return [transcript.text];
  return renderTranscript(transcript, 'txt').trimEnd().split('\n');
}

function describeCrash({ exitCode, signal, jobs }: WorkerCrash): string {
  const how = signal === null ? `exit code ${String(exitCode)}` : signal;
  return `a worker died (${how}); ${jobs} of its jobs went back to the queue`;
}

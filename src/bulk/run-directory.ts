/**
 * Runs files and directories through a model into an output directory: every input once, however often the run is stopped and
 * started again.
 *
 *   scan ──▶ plan ──▶ finished, or failed for good: told again, nothing done
 *                ├──▶ render: a wanted format is written from the stored result
 *                └──▶ job ──▶ completed: formats are written, then the manifest's line
 *                         └─▶ failed: the manifest's line
 *
 * At most `maxInFlight` jobs are under way, so memory does not grow with the directory. Another pass over the tree counts
 * ahead, for the progress bar.
 */
import { createHash } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import path from 'node:path';
import { toWavepoolError } from '../core/errors.ts';
import type { DoneRecord, OutputFile } from '../core/files/run-manifest.ts';
import type { NewJob, OmitEach, RawAudioFormat } from '../core/job/job.ts';
import type { JobResult, Transcript } from '../core/results/job-result.ts';
import {
  assertFormats,
  RESULT_MEDIA_TYPES,
  type ResultFormat,
  renderResult,
} from '../core/results/result-formats.ts';
import type { AudioQueue } from '../queue/audio-queue.ts';
import type { ResultStore } from '../storage/result-store.ts';
import type { Bucket } from '../storage/s3/bucket.ts';
import { ConcurrencyGate } from './concurrency-gate.ts';
import type { InputPlan, RunInput } from './input-plan.ts';
import { contentHash, outputPath, planInput } from './input-plan.ts';
import { OutputFolder } from './output-folder.ts';
import type { InputEnd } from './run-job.ts';
import { readResult, runJob } from './run-job.ts';
import type { ScanEntry, ScannedInput, ScanRoots } from './scan.ts';
import { scanInputs } from './scan.ts';
import type { RunEvent, RunSummary } from './summary.ts';
import { RunTally } from './summary.ts';

export type RunJobSettings = OmitEach<NewJob, 'id' | 'input' | 'runId' | 'delayMs' | 'partials'>;

export interface RunDirectoryOptions {
  /** From `resolveRoots`. */
  readonly roots: ScanRoots;
  /** The output directory; with `outBucket`, where the run remembers what is finished. */
  readonly out: string;
  /** Takes the outputs in place of the directory. */
  readonly outBucket?: Bucket | undefined;
  /** Files to write for each input, of the formats that the task has; may be empty when `onResult` is given. */
  readonly formats: readonly ResultFormat[];
  readonly results: ResultStore;
  /** Called when the first job is to be added: a run with nothing to do needs no queue and no worker. */
  readonly openQueue: () => Promise<AudioQueue>;
  readonly model: string;
  /** Identity of the weights: other weights make every input new. */
  readonly checkpoint: string;
  /** Of every job. */
  readonly job?: RunJobSettings;
  /** Declares every file to be samples and nothing else. */
  readonly rawFormat?: RawAudioFormat | undefined;
  /** Walks over the inputs in place of the roots, once for each call: what is there is also counted ahead. */
  readonly scan?: ((signal: AbortSignal) => AsyncIterable<ScanEntry>) | undefined;
  /** Yields the inputs, until it is halted, in place of one walk over the roots. */
  readonly source?: (halt: AbortSignal) => AsyncIterable<ScanEntry>;
  /** Most jobs added and not yet ended; as a function, asked for with the first of them. */
  readonly maxInFlight: number | (() => Promise<number>);
  readonly onEvent?: (event: RunEvent, tally: RunTally) => void;
  /** Told every result, those of inputs finished before included. */
  readonly onResult?: (filePath: string, result: JobResult) => void;
  /** The same for transcripts alone. */
  readonly onTranscript?: (filePath: string, transcript: Transcript) => void;
  /** Stops the run: no more jobs are added, those in the queue stay there for the next run. */
  readonly signal?: AbortSignal;
  /** Called once after `signal`; resolves when running jobs have ended or been given up. Their results are still taken. */
  readonly finishRunning?: () => Promise<void>;
}

/**
 * @throws {WavepoolError} INVALID_REQUEST, OUTPUT_BUSY, STORAGE_FULL, whatever `openQueue` and `maxInFlight` throw,
 *   REDIS_UNAVAILABLE. Failures of single inputs are in the summary.
 */
export async function runDirectory(options: RunDirectoryOptions): Promise<RunSummary> {
  assertFormats(options.job?.task ?? 'transcribe', options.formats);
  const output = await OutputFolder.open(options.out, options.outBucket);
  try {
    return await new DirectoryRun(options, output).run();
  } finally {
    await output.close();
  }
}

class DirectoryRun {
  readonly #options: RunDirectoryOptions;
  readonly #output: OutputFolder;
  readonly #optionsKey: string;
  readonly #tally = new RunTally();
  readonly #gate: ConcurrencyGate;
  /** Ends the scan. */
  readonly #halt = new AbortController();
  /** Ends the waits for jobs. */
  readonly #leave = new AbortController();
  /** Inputs by the id of their job, for its progress. */
  readonly #inputs = new Map<string, string>();
  #queue: Promise<AudioQueue> | undefined;
  #visitedAll = false;
  /** Inputs given up for now. */
  #left = 0;
  #failure: Error | undefined;

  constructor(options: RunDirectoryOptions, output: OutputFolder) {
    this.#options = options;
    this.#output = output;
    this.#gate = new ConcurrencyGate(options.maxInFlight);
    this.#optionsKey = optionsKeyOf(options);
    // Every job under way listens; Node takes more than ten for a leak.
    setMaxListeners(0, this.#leave.signal);
  }

  async run(): Promise<RunSummary> {
    const { signal } = this.#options;
    const stop = (): void => this.#stop();
    signal?.addEventListener('abort', stop);
    if (signal?.aborted === true) stop();
    // What comes in over time cannot be counted ahead.
    const counting = this.#options.source === undefined ? this.#count() : undefined;
    try {
      await this.#visitAll();
      if (this.#halt.signal.aborted) await this.#giveUp();
      await this.#gate.idle();
    } finally {
      signal?.removeEventListener('abort', stop);
      this.#halt.abort();
      await counting;
    }
    if (this.#failure !== undefined) throw this.#failure;
    return this.#tally.summary(!this.#visitedAll || this.#left > 0);
  }

  /** Returns early when the run is stopped. */
  async #visitAll(): Promise<void> {
    try {
      for await (const entry of this.#options.source?.(this.#halt.signal) ?? this.#scan()) {
        if (entry.kind === 'input') await this.#visit(entry);
        else if (entry.kind === 'skipped') this.#tell({ type: 'skipped', path: entry.path });
        else this.#tell({ ...entry, type: 'problem' });
      }
      this.#visitedAll = true;
      this.#tell({ type: 'scanned' });
      await this.#gate.quiet();
    } catch (error) {
      if (!this.#halt.signal.aborted) this.#break(error);
    }
  }

  async #visit(scanned: ScannedInput): Promise<void> {
    const { path: place, object } = scanned;
    const manifestPath = object === undefined ? path.relative(this.#output.path, place) : place;
    const input: RunInput = { ...scanned, manifestPath };
    this.#tell({ type: 'found', path: input.path });
    const { formats } = this.#options;
    const context = { output: this.#output, formats, optionsKey: this.#optionsKey };
    const plan = await planInput(input, context);
    if (await this.#settleWithoutWork(input, plan)) return;
    if (await this.#gate.room()) this.#gate.start(() => this.#work(input));
    else this.#left += 1;
  }

  /** True when the plan needs no job. */
  async #settleWithoutWork(input: RunInput, plan: InputPlan): Promise<boolean> {
    if (plan.kind === 'work') return false;
    if (plan.kind === 'report') {
      const { code, message } = plan.record;
      this.#tell({ type: 'failed', path: input.path, code, message, known: true });
      return true;
    }
    const { record } = plan;
    if (plan.kind === 'finished' && !this.#wantsResults()) {
      this.#tell({ type: 'finished', path: input.path });
      return true;
    }
    const result = await readResult(record.resultKey, this.#options.results);
    if (result === undefined) return false;
    if (plan.kind === 'render') await this.#deliver(input, record, result, true);
    else {
      this.#show(input, result);
      this.#tell({ type: 'finished', path: input.path });
    }
    return true;
  }

  async #work(input: RunInput): Promise<void> {
    try {
      const queue = await this.#openQueue();
      let hash: Promise<string | undefined> | undefined;
      let jobId = '';
      const end = await runJob(input, {
        queue,
        results: this.#options.results,
        runId: this.#output.runId,
        optionsKey: this.#optionsKey,
        job: this.#options.job ?? {},
        rawFormat: this.#options.rawFormat,
        signal: this.#leave.signal,
        onSubmitted: (id) => {
          this.#inputs.delete(jobId);
          jobId = id;
          this.#inputs.set(id, input.path);
          this.#tell({ type: 'submitted', path: input.path });
          hash ??= contentHash(input);
        },
      });
      this.#inputs.delete(jobId);
      await this.#conclude(input, end, await hash);
    } catch (error) {
      this.#break(error);
    }
  }

  async #conclude(input: RunInput, end: InputEnd, hash: string | undefined): Promise<void> {
    if (end.kind === 'left') {
      this.#left += 1;
      return;
    }
    const { manifestPath, bytes, mtimeMs } = input;
    const identity = {
      path: manifestPath,
      bytes,
      mtimeMs,
      ...(hash === undefined ? {} : { hash }),
      optionsKey: this.#optionsKey,
      jobId: end.jobId,
    };
    if (end.kind === 'failed') {
      const { code, message } = end;
      await this.#output.manifest.append({ state: 'failed', ...identity, code, message });
      this.#tell({ type: 'failed', path: input.path, code, message, known: false });
      return;
    }
    const { resultKey, durationSeconds: audioSeconds, noSpeech } = end.outcome;
    const record: DoneRecord = {
      state: 'done',
      ...identity,
      resultKey,
      audioSeconds,
      noSpeech,
      outputs: [],
    };
    await this.#deliver(input, record, end.result, false);
  }

  /** Writes what is wanted of a result, then its line in the manifest. */
  async #deliver(
    input: RunInput,
    record: DoneRecord,
    result: JobResult,
    rendered: boolean,
  ): Promise<void> {
    let outputs: OutputFile[];
    try {
      outputs = await this.#writeOutputs(input, result);
    } catch (error) {
      await this.#failDelivery(input, record, error);
      return;
    }
    const { manifest } = this.#output;
    const others = record.outputs.filter(
      (old) =>
        manifest.owns(record.path, old.path) &&
        outputs.every(({ path: name }) => name !== old.path),
    );
    await manifest.append({ ...record, outputs: [...others, ...outputs] });
    this.#show(input, result);
    const { audioSeconds, noSpeech } = record;
    this.#tell({ type: 'done', path: input.path, audioSeconds, noSpeech, rendered });
  }

  async #writeOutputs(input: RunInput, result: JobResult): Promise<OutputFile[]> {
    const outputs: OutputFile[] = [];
    for (const format of this.#options.formats) {
      const target = outputPath(input, format);
      const bytes = await this.#output.write(
        target,
        renderResult(result, format),
        RESULT_MEDIA_TYPES[format],
      );
      outputs.push({ format, path: target, bytes });
    }
    return outputs;
  }

  /** The result is safe in the result store: the next run writes it. */
  async #failDelivery(input: RunInput, record: DoneRecord, error: unknown): Promise<void> {
    const { code, message } = toWavepoolError(error);
    const { path: manifestPath, bytes, mtimeMs, hash, optionsKey, jobId } = record;
    await this.#output.manifest.append({
      state: 'failed',
      path: manifestPath,
      bytes,
      mtimeMs,
      ...(hash === undefined ? {} : { hash }),
      optionsKey,
      jobId,
      code,
      message,
    });
    this.#tell({ type: 'failed', path: input.path, code, message, known: false });
  }

  #wantsResults(): boolean {
    const { onResult, onTranscript } = this.#options;
    return onResult !== undefined || onTranscript !== undefined;
  }

  #show(input: RunInput, result: JobResult): void {
    this.#options.onResult?.(input.path, result);
    if (result.task === 'transcribe') this.#options.onTranscript?.(input.path, result);
  }

  /** After a stop: what runs may end, what waits stays in the queue. */
  async #giveUp(): Promise<void> {
    try {
      await this.#options.finishRunning?.();
    } catch (error) {
      this.#break(error);
    }
    this.#leave.abort();
  }

  #stop(): void {
    this.#halt.abort();
    this.#gate.close();
  }

  /** An error of the whole run, not of one input. */
  #break(error: unknown): void {
    this.#failure ??= error instanceof Error ? error : toWavepoolError(error);
    this.#stop();
    this.#leave.abort();
  }

  #openQueue(): Promise<AudioQueue> {
    this.#queue ??= this.#options.openQueue().then((queue) => {
      queue.on('progress', ({ id, progress }) => {
        const input = this.#inputs.get(id);
        if (input === undefined) return;
        const { processedSeconds } = progress;
        this.#tell({ type: 'progress', path: input, processedSeconds });
      });
      return queue;
    });
    return this.#queue;
  }

  /** Runs ahead of the jobs, so that the number of inputs is known early. */
  async #count(): Promise<void> {
    let inputs = 0;
    try {
      for await (const entry of this.#scan()) if (entry.kind === 'input') inputs += 1;
      this.#tell({ type: 'counted', inputs });
    } catch (error) {
      if (!this.#halt.signal.aborted) this.#break(error);
    }
  }

  #scan(): AsyncIterable<ScanEntry> {
    const { roots, out, rawFormat, scan } = this.#options;
    if (scan !== undefined) return scan(this.#halt.signal);
    return scanInputs(roots, {
      out,
      everyFile: rawFormat !== undefined,
      signal: this.#halt.signal,
    });
  }

  #tell(event: RunEvent): void {
    this.#tally.add(event);
    this.#options.onEvent?.(event, this.#tally);
  }
}

/** Inputs finished under another key are not finished under this one. */
function optionsKeyOf({ model, checkpoint, job, rawFormat }: RunDirectoryOptions): string {
  const { task = 'transcribe', options = {} } = job ?? {};
  const parts = [model, checkpoint, task, Object.entries(options).toSorted()];
  const identity = JSON.stringify(rawFormat === undefined ? parts : [...parts, rawFormat]);
  return createHash('sha256').update(identity).digest('hex').slice(0, 32);
}

/**
 * The typed mirror of the native addon: the one file that loads it, on first use. Nothing else names the `.node` file or
 * knows its functions; `native-engine.ts` turns them into the engine that the runtime uses.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import type {
  AudioWarning,
  BuildInfo,
  ModelInfo,
  ModelPlan,
  PcmSamples,
  PoolOptions,
  SourceInfo,
  TaskOptions,
  TaskResult,
} from '../runtime/engine.ts';

/** Errors of native code carry the name of their row in the error table. */
export interface NativeError extends Error {
  readonly code: string;
}

export interface AudioHandle {
  readonly info: SourceInfo;
  readonly warnings: AudioWarning[];
  readonly endSample: number;
  readonly ended: boolean;
  readonly residentBytes: number;
  /** Only one decode at a time. */
  decodeUntil(sample: number): Promise<void>;
  /** The decode in progress, if any, ends with CANCELLED. */
  cancelDecode(): void;
  /** Only live audio has `append` and `end`. */
  append(samples: PcmSamples): void;
  end(): void;
  release(sample: number): void;
  /** Throws while decoding. Once closed, only the state of the handle may be read. */
  close(): void;
}

declare const STATE: unique symbol;
/** The state of a stateful task; opaque to JavaScript. */
export interface StateHandle {
  readonly [STATE]: true;
}

export interface NativeItem {
  readonly audio: AudioHandle;
  readonly startSample: number;
  readonly endSample: number;
  readonly state: StateHandle | undefined;
  readonly options: TaskOptions;
}

export type NativeOutcome =
  | { readonly ok: true; readonly result: TaskResult }
  | { readonly ok: false; readonly error: NativeError };

export interface RunHandle {
  readonly done: Promise<void>;
  cancel(index: number): void;
}

export interface StreamHandle {
  /** One call at a time. */
  push(samples: Float32Array): Promise<TaskResult | undefined>;
  push(audio: AudioHandle, startSample: number, endSample: number): Promise<TaskResult | undefined>;
  finish(): Promise<TaskResult>;
  reset(): Promise<void>;
}

export interface PoolHandle {
  readonly size: number;
  readonly capacity: number;
  readonly maxBatch: number;
  readonly sessionBytes: number[];
  /** `onOutcome` is called once per item before `done` resolves, and must not throw. */
  run(
    slot: number,
    items: readonly NativeItem[],
    onOutcome: (index: number, outcome: NativeOutcome) => void,
  ): RunHandle;
  startStream(slot: number, options: TaskOptions): Promise<StreamHandle>;
  /** May be called once. */
  close(): Promise<void>;
}

export interface ModelHandle {
  readonly info: ModelInfo;
  createPool(options: PoolOptions): Promise<PoolHandle>;
  createState(): StateHandle;
  close(): void;
}

export interface Binding {
  readonly build: BuildInfo;
  /** Decodes one channel, counted from 0, or without `channel` the mix of all. */
  openFile(path: string, channel?: number): Promise<AudioHandle>;
  openLive(sampleRate: number, channels: number): AudioHandle;
  /** Takes ownership of the descriptor. */
  openPipe(readDescriptor: number, stallTimeoutMs: number, channel?: number): Promise<AudioHandle>;
  createPipe(): { readDescriptor: number; writeDescriptor: number };
  loadModel(path: string): Promise<ModelHandle>;
  planModel(path: string, options: Omit<PoolOptions, 'slots'>): Promise<ModelPlan>;
}

/** What the test addon has beyond the published one. */
export interface TestBinding extends Binding {
  /** The names are in native/tests/support/faults.h. */
  setFault(name: string, armed: boolean): void;
  clearFaults(): void;
  /** Counts the objects of the test families in this process. A session counts until its destruction has ended. */
  liveObjects(): { readonly weights: number; readonly sessions: number };
}

/** The features of x86-64-v3, as /proc/cpuinfo names them. */
const X86_64_V3 = ['avx', 'avx2', 'bmi1', 'bmi2', 'f16c', 'fma', 'movbe', 'xsave', 'abm'] as const;

/** The features that the addon needs and `cpuinfo` (the text of /proc/cpuinfo) does not list. */
export function missingCpuFeatures(cpuinfo: string): string[] {
  const flags = /^flags\s*:(.*)$/m.exec(cpuinfo)?.[1];
  // A kernel that hides the list says nothing about the features.
  if (flags === undefined) return [];
  const present = new Set(flags.trim().split(/\s+/));
  return X86_64_V3.filter((feature) => !present.has(feature));
}

/** Running unsupported instructions would end the process, so this comes before loading. */
function requireCpu(): void {
  if (process.arch !== 'x64' || process.platform !== 'linux') return;
  const missing = missingCpuFeatures(readFileSync('/proc/cpuinfo', 'utf8'));
  if (missing.length > 0) throw new WavepoolError('CPU_UNSUPPORTED', missing.join(', '));
}

/** The package that brings the addon for this machine, where there is one. */
const PREBUILT = `@wavepool/${process.platform}-${process.arch}`;

/**
 * The path of the addon that was built here, or else of the prebuilt one if its package is installed. Without either it is
 * the path of the first, where `wavepool doctor --build` puts the addon.
 */
export function addonPath(): string {
  const built = builtAddonPath('addon.node');
  if (existsSync(built)) return built;
  try {
    return createRequire(import.meta.url).resolve(`${PREBUILT}/addon.node`);
  } catch {
    return built;
  }
}

/** Where `scripts/build-native.mjs` leaves an addon, both for the sources and for `dist/`. */
export function builtAddonPath(file: 'addon.node' | 'addon_test.node'): string {
  const relative = path.join('build', 'release', 'Release', file);
  let folder = import.meta.dirname;
  while (!existsSync(path.join(folder, 'native', 'CMakeLists.txt'))) {
    const parent = path.dirname(folder);
    if (parent === folder) return path.resolve(relative);
    folder = parent;
  }
  return path.join(folder, relative);
}

const HOW_TO_BUILD =
  'build it with `wavepool doctor --build`, or ask `wavepool doctor` what this machine lacks';

/**
 * Loads the addon at `file`. Loading again gives the same exports.
 * @throws {WavepoolError} CPU_UNSUPPORTED, ADDON_MISSING
 */
export function loadBinding(file: string): Binding {
  requireCpu();
  if (!existsSync(file)) {
    throw new WavepoolError('ADDON_MISSING', `${file} does not exist; ${HOW_TO_BUILD}`);
  }
  try {
    // The addon is what this file mirrors; native code checks its arguments again.
    return createRequire(import.meta.url)(file) as Binding;
  } catch (cause) {
    throw new WavepoolError('ADDON_MISSING', `${file} cannot be loaded; ${HOW_TO_BUILD}`, {
      cause,
    });
  }
}

/**
 * An engine for tests of the pipeline: its audio is a script with one character per second (`s` speech, `.` silence),
 * its detector reads the script, its recognizer answers with the range that it was given.
 */
import { toWavepoolError, WavepoolError } from '../../src/core/errors.ts';
import {
  type Audio,
  type Engine,
  type LoadedModel,
  type ModelInfo,
  SAMPLE_RATE,
  type TaskItem,
  type TaskOutcome,
  type TaskResult,
} from '../../src/runtime/engine.ts';

const WINDOW_SAMPLES = SAMPLE_RATE / 2;

export interface EngineScript {
  /** Of a mix, or of an input with one channel. */
  readonly audio: string;
  /** One script for each channel, for whoever asks for one. */
  readonly channels?: readonly string[];
  /** What the recognizer knows. @defaultValue none */
  readonly languages?: readonly string[];
  /** What it takes besides `suppressBlank`. @defaultValue nothing */
  readonly optionNames?: readonly string[];
  /** What it says of a segment beside the text, or instead of it. */
  readonly reply?: (item: TaskItem) => Partial<TaskResult>;
  /** Called before a segment is recognized; what it throws fails that segment. */
  readonly onRecognize?: (item: TaskItem) => void | Promise<void>;
  /** Seconds at which the recognizer hears no words unless it has to. */
  readonly unclear?: readonly number[];
  /** Decoding fails when it reaches this second. */
  readonly brokenAtSecond?: number;
}

const NOTHING: TaskResult = {
  text: '',
  tokens: new Int32Array(),
  pieces: [],
  language: '',
  truncated: false,
  probabilities: new Float32Array(),
};

export class ScriptedAudio implements Audio {
  readonly info;
  readonly warnings = [];
  readonly text: string;
  readonly #script: EngineScript;
  endSample = 0;
  beginSample = 0;
  mostHeldSamples = 0;
  closed = false;

  constructor(script: EngineScript, channel?: number) {
    this.#script = script;
    this.text = channel === undefined ? script.audio : (script.channels?.[channel] ?? script.audio);
    this.info = {
      container: 'wav',
      codec: 'pcm_s16le',
      sampleRate: SAMPLE_RATE,
      channels: script.channels?.length ?? 1,
      bitsPerSample: 16,
    };
  }

  get ended(): boolean {
    return this.endSample === this.text.length * SAMPLE_RATE;
  }
  get residentBytes(): number {
    return (this.endSample - this.beginSample) * 4;
  }

  decodeUntil(sample: number): Promise<void> {
    const { brokenAtSecond = Infinity } = this.#script;
    this.endSample = Math.min(sample, this.text.length * SAMPLE_RATE);
    this.mostHeldSamples = Math.max(this.mostHeldSamples, this.endSample - this.beginSample);
    if (this.endSample <= brokenAtSecond * SAMPLE_RATE) return Promise.resolve();
    return Promise.reject(new WavepoolError('INPUT_UNDECODABLE', 'it breaks off'));
  }

  release(sample: number): void {
    this.beginSample = Math.max(this.beginSample, sample);
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }

  /** What native code would refuse. */
  assertResident({ startSample, endSample }: TaskItem): void {
    if (this.closed) throw new Error('the audio was closed under running work');
    if (startSample < this.beginSample || endSample > this.endSample) {
      throw new Error(`[${startSample}, ${endSample}) is not resident`);
    }
  }
}

function detect(item: TaskItem): TaskResult {
  const text = item.audio instanceof ScriptedAudio ? item.audio.text : '';
  const probabilities: number[] = [];
  for (let sample = item.startSample; sample < item.endSample; sample += WINDOW_SAMPLES) {
    probabilities.push(text[Math.floor(sample / SAMPLE_RATE)] === 's' ? 0.9 : 0.1);
  }
  return { ...NOTHING, probabilities: Float32Array.from(probabilities) };
}

async function runItem(
  item: TaskItem,
  script: EngineScript,
  info: ModelInfo,
): Promise<TaskOutcome> {
  try {
    if (item.audio instanceof ScriptedAudio) item.audio.assertResident(item);
    if (info.task === 'vad') return { ok: true, result: detect(item) };
    await script.onRecognize?.(item);
    if (item.audio instanceof ScriptedAudio) item.audio.assertResident(item);
    const second = item.startSample / SAMPLE_RATE;
    const { suppressBlank = false } = item.options;
    if (script.unclear?.includes(second) && !suppressBlank) {
      return { ok: true, result: NOTHING };
    }
    const text = `${item.startSample / SAMPLE_RATE}-${item.endSample / SAMPLE_RATE}`;
    return { ok: true, result: { ...NOTHING, text, ...script.reply?.(item) } };
  } catch (error) {
    return { ok: false, error: toWavepoolError(error) };
  }
}

function scriptedModel(script: EngineScript, task: ModelInfo['task']): LoadedModel {
  const info: ModelInfo = {
    family: `scripted-${task}`,
    task,
    name: task,
    weightBytes: 0,
    nativeBatch: true,
    maxSegmentSeconds: task === 'asr' ? 10 : 0,
    windowSamples: task === 'vad' ? WINDOW_SAMPLES : 0,
    languages: task === 'asr' ? (script.languages ?? []) : [],
    optionNames: ['suppressBlank', ...(script.optionNames ?? [])],
    stateful: task === 'vad',
  };
  return {
    info,
    createState: () => ({ kind: 'task-state' }),
    createPool: ({ slots, maxBatch }) =>
      Promise.resolve({
        size: slots,
        capacity: slots,
        maxBatch,
        sessionBytes: Array<number>(slots).fill(0),
        run: (_slot, items) => ({
          done: Promise.all(items.map((item) => runItem(item, script, info))),
        }),
        startStream: () => Promise.reject(new Error('no streams here')),
        close: () => Promise.resolve(),
      }),
    close: () => Promise.resolve(),
  };
}

/** `path` chooses: "vad" is the detector, anything else the recognizer. */
export function scriptedEngine(script: EngineScript): Engine {
  return {
    build: { identity: 'scripted', ggml: '', compiler: '', flags: '', backend: 'cpu' },
    createPipe: () => {
      throw new Error('no pipes here');
    },
    openLiveAudio: () => {
      throw new Error('no live audio here');
    },
    openAudio: ({ channel }) => Promise.resolve(new ScriptedAudio(script, channel)),
    loadModel: (path) =>
      Promise.resolve(scriptedModel(script, path.endsWith('vad') ? 'vad' : 'asr')),
  };
}

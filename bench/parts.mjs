/** Every part of the benchmark, in the order in which they run and stand in docs/performance.md. */
import { decoding } from './parts/decode.mjs';
import {
  moonshineClips,
  moonshineEngine,
  moonshineHour,
  moonshineMixed,
} from './parts/moonshine.mjs';
import { queue, queueLength } from './parts/queue.mjs';
import { refusal } from './parts/refusal.mjs';
import { scaling } from './parts/scaling.mjs';
import { service } from './parts/service.mjs';
import { silence } from './parts/silence.mjs';
import { sweeping } from './parts/sweep.mjs';
import { vad } from './parts/vad.mjs';
import { whisperClips, whisperEngine, whisperHour } from './parts/whisper.mjs';
import { words } from './parts/words.mjs';

export const PARTS = [
  moonshineEngine,
  moonshineClips,
  moonshineMixed,
  moonshineHour,
  silence,
  words,
  whisperEngine,
  whisperClips,
  whisperHour,
  vad,
  decoding,
  sweeping,
  scaling,
  queue,
  queueLength,
  refusal,
  service,
];

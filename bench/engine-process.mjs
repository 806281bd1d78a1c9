/**
 * Wavepool's native engine alone in a process: no queue, no detector, one pool of one model. IPC: {type:'start', weights, slots,
 * threads, batch} → {type:'ready', capacity}; {type:'run', files} → {type:'first'} with the first text, then {type:'done', seconds,
 * texts}: files decoded and recognized in batches of similar length.
 */
import { NativeEngine } from '../dist/src/engine/native-engine.js';

const engine = new NativeEngine();
let model;
let pool;
let batch;

async function start(settings) {
  const { weights, slots, threads } = settings;
  batch = settings.batch;
  model = await engine.loadModel(weights);
  pool = await model.createPool({ slots, threads, maxBatch: batch, mode: 'offline' });
}

async function open(file, index) {
  const audio = await engine.openAudio({ kind: 'file', path: file });
  await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
  return { audio, index };
}

async function runBatch(slot, clips, onText) {
  const items = clips.map(({ audio }) => {
    return { audio, startSample: 0, endSample: audio.endSample, options: {} };
  });
  const outcomes = await pool.run(slot, items).done;
  for (const [i, { audio, index }] of clips.entries()) {
    if (!outcomes[i].ok) throw outcomes[i].error;
    onText(index, outcomes[i].result.text);
    await audio.close();
  }
}

async function run(files) {
  const startedAt = performance.now();
  const clips = await Promise.all(files.map(open));
  clips.sort((a, b) => b.audio.endSample - a.audio.endSample);
  const texts = [];
  const onText = (index, text) => {
    if (texts.length === 0) process.send({ type: 'first' });
    texts[index] = text;
  };
  const slot = async (index) => {
    while (clips.length > 0) await runBatch(index, clips.splice(0, batch), onText);
  };
  await Promise.all(Array.from({ length: pool.size }, (_, index) => slot(index)));
  return { seconds: (performance.now() - startedAt) / 1000, texts };
}

process.on('message', async (message) => {
  if (message.type === 'start') {
    await start(message);
    process.send({ type: 'ready' });
  } else if (message.type === 'run') {
    process.send({ type: 'done', ...(await run(message.files)) });
  } else {
    await pool?.close();
    await model?.close();
    process.disconnect();
  }
});

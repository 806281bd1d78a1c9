/**
 * One sherpa-onnx process: loads Moonshine tiny and decodes the files it is given one by one (it does not batch Moonshine). With
 * a detector it finds speech first and decodes what was found, as its own examples for long files do; without one it takes
 * files as a whole, which its docs leave to clips. IPC: {type:'start', model, threads, detector?} → {type:'ready'}; {type:'run',
 * files} → {type:'first'} with the first text, then {type:'done', texts}.
 */
import sherpa from 'sherpa-onnx-node';

const RATE = 16_000;
const WINDOW = 512;
/** All values are those of the project's examples. */
const DETECTOR_SETTINGS = {
  threshold: 0.5,
  minSpeechDuration: 0.25,
  minSilenceDuration: 0.5,
  maxSpeechDuration: 20,
  windowSize: WINDOW,
};
const DETECTOR_BUFFER_SECONDS = 60;

let recognizer;
let detector;

function recognize(samples) {
  const stream = recognizer.createStream();
  stream.acceptWaveform({ samples, sampleRate: RATE });
  recognizer.decode(stream);
  return recognizer.getResult(stream).text.trim();
}

function recognizeSpeech(samples) {
  const texts = [];
  const take = () => {
    for (; !detector.isEmpty(); detector.pop()) texts.push(recognize(detector.front().samples));
  };
  detector.reset();
  for (let start = 0; start + WINDOW <= samples.length; start += WINDOW) {
    detector.acceptWaveform(samples.subarray(start, start + WINDOW));
    take();
  }
  detector.flush();
  take();
  return texts.join(' ');
}

function start(settings) {
  const { model, threads } = settings;
  recognizer = new sherpa.OfflineRecognizer({
    featConfig: { sampleRate: RATE, featureDim: 80 },
    modelConfig: {
      moonshine: {
        encoder: `${model}/encoder_model.onnx`,
        mergedDecoder: `${model}/decoder_model_merged.onnx`,
      },
      tokens: `${model}/tokens.txt`,
      numThreads: threads,
      provider: 'cpu',
      debug: 0,
    },
  });
  if (settings.detector === undefined) return;
  const sileroVad = { model: settings.detector, ...DETECTOR_SETTINGS };
  const config = { sileroVad, sampleRate: RATE, numThreads: 1, debug: false };
  detector = new sherpa.Vad(config, DETECTOR_BUFFER_SECONDS);
}

function run(files) {
  return files.map((file, index) => {
    const { samples } = sherpa.readWave(file);
    const text = detector === undefined ? recognize(samples) : recognizeSpeech(samples);
    if (index === 0) process.send({ type: 'first' });
    return text;
  });
}

process.on('message', (message) => {
  if (message.type === 'start') {
    start(message);
    process.send({ type: 'ready' });
  } else if (message.type === 'run') {
    process.send({ type: 'done', texts: run(message.files) });
  } else {
    process.exit(0);
  }
});
